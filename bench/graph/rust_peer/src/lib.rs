//! The kernels of the crate `graph` with C functions. All graphs are made once, outside the timed calls. The graph is
//! symmetric: `begin` has `nodes + 1` elements, `to` and `weight` have `begin[nodes]`. Results go to `nodes` elements.
use graph::prelude::*;
use std::slice::from_raw_parts;

pub struct Graphs {
    nodes: usize,
    directed: DirectedCsrGraph<u32>,
    weighted: DirectedCsrGraph<u32, (), f32>,
    undirected: UndirectedCsrGraph<u32>,
}

/// # Safety
/// The arrays have the sizes that are given above.
#[no_mangle]
pub unsafe extern "C" fn rust_graph(nodes: u64, begin: *const i64, to: *const i64, weight: *const i32) -> *mut Graphs {
    let nodes = nodes as usize;
    let begin = from_raw_parts(begin, nodes + 1);
    let to = from_raw_parts(to, begin[nodes] as usize);
    let weight = from_raw_parts(weight, to.len());
    let edges = || {
        (0..nodes).flat_map(move |from| (begin[from] as usize..begin[from + 1] as usize).map(move |edge| (from as u32, to[edge] as u32, weight[edge] as f32)))
    };
    let plain: Vec<_> = edges().map(|(from, to, _)| (from, to)).collect();
    let directed = GraphBuilder::new().csr_layout(CsrLayout::Sorted).edges(plain).build();
    let once: Vec<_> = edges().filter(|(from, to, _)| from < to).map(|(from, to, _)| (from, to)).collect();
    let undirected = GraphBuilder::new().csr_layout(CsrLayout::Sorted).edges(once).build();
    let weighted = GraphBuilder::new().csr_layout(CsrLayout::Sorted).edges_with_values(edges().collect::<Vec<_>>()).build();
    Box::into_raw(Box::new(Graphs { nodes, directed, weighted, undirected }))
}

/// # Safety
/// `graphs` is from `rust_graph`.
#[no_mangle]
pub unsafe extern "C" fn rust_pr(graphs: *const Graphs, result: *mut f32) {
    let graphs = &*graphs;
    let (ranks, _, _) = page_rank(&graphs.directed, PageRankConfig::new(20, 1e-4, 0.85));
    std::ptr::copy_nonoverlapping(ranks.as_ptr(), result, ranks.len());
}

/// Afforest. The graph may have fewer nodes than were given if the last ones have no edges: those are components of their own.
///
/// # Safety
/// `graphs` is from `rust_graph`.
#[no_mangle]
pub unsafe extern "C" fn rust_cc(graphs: *const Graphs, result: *mut u32) {
    let graphs = &*graphs;
    let components = wcc_afforest(&graphs.directed, WccConfig::default()).to_vec();
    std::ptr::copy_nonoverlapping(components.as_ptr(), result, components.len());
    for node in components.len()..graphs.nodes {
        *result.add(node) = node as u32;
    }
}

/// Delta stepping. Nodes that are not reached have the largest finite number.
///
/// # Safety
/// `graphs` is from `rust_graph`.
#[no_mangle]
pub unsafe extern "C" fn rust_sssp(graphs: *const Graphs, root: u64, delta: f32, result: *mut f32) {
    let graphs = &*graphs;
    let distances = delta_stepping(&graphs.weighted, DeltaSteppingConfig::new(root as usize, delta));
    for (node, distance) in distances.into_iter().enumerate() {
        *result.add(node) = distance.into_inner();
    }
    for node in graphs.weighted.node_count() as usize..graphs.nodes {
        *result.add(node) = f32::MAX;
    }
}

/// Renumbers the nodes by degree first if `relabel` is not 0, from the second call on from numbers that are so already.
///
/// # Safety
/// `graphs` is from `rust_graph`, and used by nobody else meanwhile.
#[no_mangle]
pub unsafe extern "C" fn rust_tc(graphs: *mut Graphs, relabel: i32) -> u64 {
    let graphs = &mut *graphs;
    if relabel != 0 {
        relabel_graph(&mut graphs.undirected);
    }
    global_triangle_count(&graphs.undirected)
}
