//! The crate `node-replication`: two replicas of a sum, a thread each.

use crate::{one, term, Command};
use node_replication::{Dispatch, Log, Replica};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Instant;

#[derive(Default)]
struct Sum(u64);

#[derive(Clone, Debug, PartialEq)]
struct Add(Command);

impl Default for Add {
    fn default() -> Add {
        Add([0; crate::COMMAND_BYTES])
    }
}

impl Dispatch for Sum {
    type ReadOperation = ();
    type WriteOperation = Add;
    type Response = u64;
    fn dispatch(&self, _: ()) -> u64 {
        self.0
    }
    fn dispatch_mut(&mut self, add: Add) -> u64 {
        self.0 += term(&add.0);
        self.0
    }
}

/// Of its example; it stays in the caches.
const LOG_BYTES: usize = 2 << 20;

/// Nanoseconds that `count` appends take of each thread that appends: one of two, while the other one follows, or both.
/// 0 if the replicas are not what they should be. `pin` binds a thread to a PU.
#[no_mangle]
pub extern "C" fn peers_replication(both: bool, count: u64, pin: extern "C" fn(i32)) -> u64 {
    let log = Arc::new(Log::<Add>::new(LOG_BYTES));
    let replicas = [Replica::<Sum>::new(&log), Replica::<Sum>::new(&log)];
    let waiting = AtomicUsize::new(2);
    let appending = AtomicUsize::new(if both { 2 } else { 1 });
    let well = AtomicBool::new(true);
    let total = if both { 2 * count } else { count };
    let times: Vec<u64> = std::thread::scope(|scope| {
        let bodies: Vec<_> = (0..2)
            .map(|i| {
                let (replica, waiting, appending, well) = (&replicas[i], &waiting, &appending, &well);
                scope.spawn(move || {
                    pin(i as i32);
                    let token = replica.register().unwrap();
                    waiting.fetch_sub(1, Ordering::SeqCst);
                    while waiting.load(Ordering::SeqCst) != 0 {
                        std::hint::spin_loop();
                    }
                    let begin = Instant::now();
                    let mut took = 0;
                    if both || i == 0 {
                        for _ in 0..count {
                            replica.execute_mut(Add(one()), token);
                        }
                        took = begin.elapsed().as_nanos() as u64;
                        appending.fetch_sub(1, Ordering::SeqCst);
                    }
                    while appending.load(Ordering::SeqCst) != 0 {
                        replica.sync(token);
                    }
                    if replica.execute((), token) != total {
                        well.store(false, Ordering::SeqCst);
                    }
                    took
                })
            })
            .collect();
        bodies.into_iter().map(|body| body.join().unwrap()).collect()
    });
    if well.load(Ordering::SeqCst) { times.into_iter().max().unwrap() } else { 0 }
}
