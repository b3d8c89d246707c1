"""What the programs in programs/ compute, as plain sequential Python, independent of the compiler.

A reference gets a graph and the arguments' values, and returns what the command's JSON must show: "returned", and the outputs by
name. A graph's edges are numbered in the order of (from, to), those between the same nodes in the order of its file.
"""
import collections
import math

INF32, INF64 = 2**31 - 1, 2**63 - 1


class Graph:
    def __init__(self, nodes, edges):
        self.n = nodes
        self.edges = sorted(edges, key=lambda edge: edge[:2])  # stable; (from, to, weight)
        self.out_edges = [[] for _ in range(nodes)]
        self.in_edges = [[] for _ in range(nodes)]
        for number, (from_, to, _) in enumerate(self.edges):
            self.out_edges[from_].append(number)
            self.in_edges[to].append(number)
        self.out = [[self.edges[e][1] for e in own] for own in self.out_edges]
        self.into = [[self.edges[e][0] for e in own] for own in self.in_edges]

    def levels(self, root, lists=None, enters=lambda node: True):
        """Hops from the root to each node, -1 where there is no way."""
        lists = self.out if lists is None else lists
        level = [-1] * self.n
        level[root] = 0
        queue = collections.deque([root])
        while queue:
            node = queue.popleft()
            for other in lists[node]:
                if level[other] < 0 and enters(other):
                    level[other] = level[node] + 1
                    queue.append(other)
        return level


PROGRAMS = []


def program(file, values=(), root=False):
    """`values`: properties of nodes that are made up: A, B, next. `root`: a node is wanted, so that an empty graph does not do."""
    return lambda function: PROGRAMS.append((file, function.__name__.removesuffix("_"), values, root, function)) or function


def long(value):
    """Whole numbers wrap around."""
    return (value + 2**63) % 2**64 - 2**63


def remainder(a, b):
    return int(math.fmod(a, b))


def quotient(a, b):
    return int(a / b)


def first_with(values, wanted):
    return next((i for i, value in enumerate(values) if value == wanted), None)


# --- words.gm


@program("words.gm")
def count_heavy(g, lim):
    seen, c = [False] * g.n, 0
    for from_, _, weight in g.edges:
        seen[from_] |= weight > lim
        c += weight >= lim
    return {"returned": 2 * c, "seen": seen}


@program("words.gm", ("A",))
def Shout(g, A):
    r = 0
    for value in A:
        r = 0 if r + value > 1000 else r + value
    r += 1
    while r % 7:
        r += 1
    return {"returned": r}


@program("words.gm", ("A",))
def names(g, A, min, max):
    total, keys, last = 0, set(), None
    for node, value in enumerate(A):
        if min <= value <= max:
            total += value
            keys.add(total % 3)
            last = node
    return {"returned": 10 * len(keys) + 3, "sum": total + 2, "node": last, "count": [len(own) for own in g.out]}


@program("words.gm", ("A",))
def generated(g, A):
    best, last = -1, None
    for node, value in enumerate(A):
        if value * 3 > best:
            best, last = value * 3, node
    index, better, equal = list(A), [2**31 - 1] * g.n, [0] * g.n
    for v in range(g.n):
        for w in g.out[v] if A[v] > 2 else ():
            index[w] += 3
            if A[v] < better[w]:
                better[w], equal[w] = A[v], A[v] + 2
    chosen = [value * 3 + 2 for value in A if value >= 1]
    return {"best": best, "far": last, "chunk": last, "better": ["+INF" if each == 2**31 - 1 else each for each in better], "equal": equal,
            "counts": [index[v] + sum(A[w] > 2 for w in g.out[v]) for v in range(g.n)],
            "parts": sum(chosen) / len(chosen) if chosen else 0.0, "delete": sum(value * 2 for value in A) + 43215,
            "returned": 3 + 30 + 200}


# --- expressions.gm


@program("expressions.gm")
def numbers(g, a, b, f, d, t):
    od = abs(d - f) + abs(a - 10) + 2
    od = od + remainder(-a * 3, 4) - quotient(a - b, 2) - 3.0
    return {"returned": None, "oj": int(d * 2) + int(f) - b, "ol": max(a + 2 * b, a * 10**10), "of": d / 4 + a, "od": od,
            "ob": not t or (a < b and ((d >= f) != t)), "oi": (1 if b > 3 else 2) if a > 0 else 3}


@program("expressions.gm")
def infinities(g):
    return {"returned": True, "i": "+INF", "l": "+INF", "f": "-INF", "d": "-INF", "a": [2 * len(own) for own in g.out],
            "b": [float(len(own)) for own in g.into], "c": ["-INF" if not own else 0 for own in g.out]}


@program("expressions.gm")
def texts(g, s):
    u = 'a"b\\\n'
    return {"returned": len(u) if len(s) > 2 and "bc" in s else -1, "t": s if s == "abc" or s < "b" and s != u else u}


@program("expressions.gm", ("A",))
def early(g, A, limit):
    for i in range(4):
        for node in range(g.n):
            if A[node] > limit - i:
                return {"returned": node}
            for to in g.out[node]:
                if A[to] == limit and to != node:
                    return {"returned": to}
    return {"returned": None}


@program("expressions.gm", ("A", "B"))
def reductions(g, A, B):
    r = max((2 * B[n] for n in range(g.n) if A[n] > 1), default=-math.inf) + min(B, default=math.inf)
    if any(a > 5 for a in A) and not all(a >= 0 for a in A):
        r = -r
    c = []
    for n in range(g.n):
        value = sum(math.prod(1 + B[w] / 8 for w in g.into[u] if w != n) for u in g.out[n] if A[u] < A[n])
        c.append(value + (sum(B[u] for u in g.into[n]) / len(g.into[n]) if g.into[n] else 0))
    if math.isnan(r):
        return None  # the sum of two infinities
    return {"returned": -1.0 if math.isinf(r) else r + sum(a % 2 == 0 for a in A), "C": c}


# --- edges.gm


@program("edges.gm", ("A",))
def to_target(g, A):
    b = [sum(A[u] for u in g.into[n]) for n in range(g.n)]
    return {"returned": sum(weight for _, _, weight in g.edges), "B": b, "first": [A[u] > A[v] for u, v, _ in g.edges]}


@program("edges.gm")
def of_nodes(g):
    largest = []
    for own in g.out_edges:
        most = max((g.edges[e][2] for e in own), default=-1)
        largest.append(next((e for e in own if g.edges[e][2] == most and most > -1), None))
    mark = [int(weight > 3) for _, _, weight in g.edges]
    total = sum(weight for u, v, weight in g.edges if u != v)
    return {"returned": total + sum(mark), "mark": mark, "largest": largest,
            "into": [sum(g.edges[e][2] for e in own) for own in g.in_edges]}


@program("edges.gm", ("A",))
def swap_over(g, A):
    low, at = ["+INF"] * g.n, [None] * g.n
    for n, own in enumerate(g.in_edges):
        if own:
            low[n], at[n] = min((A[g.edges[e][0]], e) for e in own)
    return {"returned": None, "low": low, "at": at, "high": [max((A[v] for v in own), default="-INF") for own in g.out]}


# --- parallel.gm


@program("parallel.gm")
def waits(g):
    a = [1] * g.n
    b = [1 + len(own) for own in g.out]
    for _ in range(3):
        a, b = [sum(a[v] for v in own) % 1000 for own in g.out], [x + y for x, y in zip(b, a)]
    return {"returned": None, "A": a, "B": b}


@program("parallel.gm", ("A",))
def choices(g, A):
    who = []
    for own in g.out:
        most = max((A[v] for v in own), default=None)
        who.append(None if most is None else min(v for v in own if A[v] == most))
    return {"returned": min(A, default="+INF"), "best": first_with(A, min(A, default=None)), "who": who}


@program("parallel.gm", ("A",))
def all_operators(g, A):
    pairs = [(n, t) for n in range(g.n) for t in g.into[n]]
    differences = [A[t] - A[n] for n, t in pairs]
    return {"returned": None, "s": sum(A[t] for _, t in pairs), "p": long(2 ** sum(A[t] % 3 == 0 for _, t in pairs)),
            "lo": min(differences, default="+INF"), "hi": max(differences, default="-INF"), "every": all(A[t] < 9 for _, t in pairs),
            "some": any(A[t] == A[n] for n, t in pairs), "P": [math.prod(1 + A[t] % 2 for t in g.into[n]) for n in range(g.n)]}


@program("parallel.gm", ("A", "next"))
def spelled(g, A, next):
    taken = [(n, next[n]) for n in range(g.n) if next[n] is not None and A[n] >= 0]
    return {"returned": sum(A[m] > A[n] for n, m in taken) - 2 * len(taken), "every": all(A[m] > A[n] for n, m in taken),
            "some": any(next[m] == n for n, m in taken)}


@program("parallel.gm")
def reach(g):
    levels = [g.levels(s) for s in range(g.n)]
    return {"returned": None, "far": [max(own) for own in levels], "seen": [sum(level >= 0 for level in own) for own in levels]}


@program("parallel.gm")
def label(g):
    label, rounds, changed = list(range(g.n)), 0, True
    while changed and rounds < 10:
        changed, after = False, list(label)
        for n in range(g.n):
            count = collections.Counter(label[t] for t in g.out[n])
            if count:
                best = min(count, key=lambda key: (-count[key], key))
                if count[best] > count[label[n]] and best != label[n]:
                    after[n], changed = best, True
        label, rounds = after, rounds + 1
    return {"returned": rounds, "L": label}


# --- traversals.gm


@program("traversals.gm", root=True)
def levels(g, root):
    level = g.levels(root)
    order = sorted((n for n in range(g.n) if level[n] >= 0), key=lambda n: level[n])
    sigma, down, up = [0.0] * g.n, [0] * g.n, [0] * g.n
    sigma[root] = 1.0
    for n in order[1:]:
        ups = [u for u in g.into[n] if level[u] == level[n] - 1]
        sigma[n], up[n] = sum(sigma[u] for u in ups), len(ups)
    for n in reversed(order[1:]):
        downs = [d for d in g.out[n] if level[d] == level[n] + 1]
        down[n] = len(downs) + sum(down[d] for d in downs)
    return {"returned": len(order) - 1, "lev": level, "sigma": sigma, "down": down, "up": up}


@program("traversals.gm", root=True)
def against(g, root, most):
    level = g.levels(root, g.into, lambda n: n == root or len(g.out[n]) < most)
    return {"returned": None, "lev": level, "in_lev": level}


@program("traversals.gm", root=True)
def depth_first(g, root):
    pre, post, order, time = [-1] * g.n, [-1] * g.n, [], 0
    pre[root], time = 0, 1
    stack = [(root, iter(g.out[root]))]
    while stack:
        node, rest = stack[-1]
        other = next((t for t in rest if pre[t] < 0), None)
        if other is not None:
            pre[other], time = time, time + 1
            stack.append((other, iter(g.out[other])))
            continue
        stack.pop()
        if g.out[node]:
            post[node], time = time, time + 1
            order.insert(0, node)
    return {"returned": time, "pre": pre, "post": post, "order": order}


@program("traversals.gm")
def forest(g):
    tree, height, trees = [-1] * g.n, [0] * g.n, 0

    def visit(start):
        tree[start] = trees
        stack = [(start, iter(g.out[start]))]
        while stack:
            node, rest = stack[-1]
            other = next((t for t in rest if tree[t] < 0), None)
            if other is not None:
                tree[other] = trees
                stack.append((other, iter(g.out[other])))
            else:
                stack.pop()
                highest = max((height[t] for t in g.out[node] if tree[t] == tree[node] and t != node), default=-INF64)
                height[node] = max(0, highest + 1)

    for s in range(g.n):
        if tree[s] < 0:
            visit(s)
            trees += 1
    return {"returned": trees, "tree": tree, "height": height}


# --- collections.gm


@program("collections.gm", ("A",), root=True)
def maps(g, A):
    count = collections.Counter(A)
    key = min(count, key=lambda value: (-count[value], value))
    loops = sum(u == v for u, v, _ in g.edges)
    return {"returned": key, "n": first_with(A, max(A)), "f": first_with(A, key), "t": sum(a for a in A if a > 2),
            "u": sum(a for a in A if a <= 2), "size": 100 * len(g.edges) + loops}


@program("collections.gm", ("A",))
def sets(g, A):
    above, below = {n for n in range(g.n) if A[n] > 2}, {n for n in range(g.n) if A[n] < 6}
    both = above & below
    marks = [(2 * (n in both) + 1) if n in above | below else 0 for n in range(g.n)]
    return {"returned": 100 * len(above | below) + 10 * len(both) + 1, "S": both, "A2": marks}


@program("collections.gm", root=True)
def per_node(g, root):
    near = [set(own) for own in g.out]
    order = sorted(near[root] | {root})
    seqs = {(root, n): 0 for n in ()}
    own = list(reversed(order)) + order
    seqs = sorted([(n, n) for n in own if n != root] + [(root, n) for n in own])
    return {"returned": None, "total": sum(len(each) for each in near), "seqs": seqs}


@program("collections.gm")
def nested(g, k):
    sets = [{n for n in range(g.n) if len(g.out[n]) > i} for i in range(k)]
    empty = {n for n in range(g.n) if not g.out[n]}
    big = max(sets, key=len, default=set())  # the first of the largest
    return {"returned": 0, "out": [each | empty for each in sets[1:]], "big": big}


@program("collections.gm", root=True)
def queues(g, root):
    order, seen, queue = [], {root}, collections.deque([root])
    while queue:
        n = queue.popleft()
        order.append(n)
        for t in g.out[n]:
            if t not in seen:
                seen.add(t)
                queue.append(t)
    return {"returned": len(order) + 1002, "order": order, "last": order[::-1]}


@program("collections.gm", ("A",), root=True)
def sorted_(g, A):
    worst = first_with(A, max(A))
    rest = sorted((n for n in range(g.n) if n != worst), key=lambda n: (A[n], n))
    least = A[rest[0]] if rest else None
    return {"returned": sum(A[n] == least for n in rest), "order": rest, "worst": worst}


# --- procedures.gm


@program("procedures.gm", ("A",))
def calls(g, A):
    def inner(n):
        if not g.out[n]:
            return -1
        return next((A[t] for t in g.out[n] if A[t] > A[n]), 0)

    b = [remainder(a, 2) for a in A]
    first = {t for n in range(g.n) if A[n] == 0 for t in g.out[n] if b[t] == 0}
    for t in first:
        b[t] = 1
    return {"returned": 9 + 40 + 8100, "R": [3 * inner(n) for n in range(g.n)], "B": b}


@program("procedures.gm", ("A",))
def foreign(g, A):
    total = g.n + 2 * sum(A)
    return {"returned": total + max([0] + [2 * a for a in A]), "B": [a + 1 for a in A]}


# --- mixed.gm


@program("mixed.gm")
def edge_collections(g):
    heavy = {e for e, edge in enumerate(g.edges) if edge[2] > 3}
    t = 0
    for _, _, weight in reversed(g.edges):
        t = t * 3 % 1000 + weight
    t += len(heavy) + sum(g.edges[e][2] for e in heavy)
    if g.edges:
        t += len(g.out[g.edges[0][1]])
    numbers = list(range(len(g.edges)))
    return {"returned": t, "S": heavy, "O": numbers[::-1], "Q": numbers, "m": [6 if e in heavy else 1 for e in numbers]}


@program("mixed.gm")
def of_items(g):
    return {"returned": None, "best": [n if len(own) > 1 else None for n, own in enumerate(g.out)],
            "w": [0.5 + len(g.out[u]) / 2 for u, _, _ in g.edges], "q": True}


@program("mixed.gm", ("A", "B"), root=True)
def values(g, A, B):
    s = float(sum(max(a, b) for a, b in zip(A, B) if a > 3 or b > 1))
    t = sum(abs(a - b) for a, b in zip(A, B)) / g.n
    if not s > t:
        return {"returned": -(s + t)}
    if g.n == 1:
        return {"returned": s}
    u = max((abs(A[x] - B[y]) for x, y, _ in g.edges), default=-math.inf)
    v = 1 + math.sqrt(2) + math.sqrt(t) + len(g.edges) / g.n
    return {"returned": (u + v) * max(len(own) for own in g.out)}


@program("mixed.gm")
def weak(g):
    comp, c = [-1] * g.n, 0
    for s in range(g.n):
        if comp[s] < 0:
            for n, level in enumerate(g.levels(s, enters=lambda n: comp[n] < 0)):
                if level >= 0:
                    comp[n] = c
            c += 1
    return {"returned": c, "comp": comp, "sizes": g.n}


@program("mixed.gm")
def by_degree(g, k):
    return {"returned": g.n, "parts": [{n for n in range(g.n) if len(g.out[n]) % k == part} for part in range(k)]}
