//! C functions around Rust crates that are peers of smelt's replicated log and map; bench/state/logs.cpp and maps.cpp
//! load them. Errors end the program with a message: a benchmark has no use for a peer that does not work.

mod blackboard;
mod omni;
mod raft_log;
mod replication;

/// Bytes of a command in every log.
pub const COMMAND_BYTES: usize = 64;
pub type Command = [u8; COMMAND_BYTES];

/// A command that adds 1.
pub fn one() -> Command {
    let mut bytes = [0; COMMAND_BYTES];
    bytes[0] = 1;
    bytes
}

/// What is inside of a command.
pub fn term(command: &[u8]) -> u64 {
    u64::from_le_bytes(command[..8].try_into().unwrap())
}

/// The next message: a replica either polls and yields, or sleeps in the channel until there is one.
pub fn receive<T>(channel: &crossbeam_channel::Receiver<T>, polls: bool) -> Option<T> {
    if !polls {
        return channel.recv().ok();
    }
    loop {
        match channel.try_recv() {
            Ok(message) => return Some(message),
            Err(crossbeam_channel::TryRecvError::Disconnected) => return None,
            Err(crossbeam_channel::TryRecvError::Empty) => std::thread::yield_now(),
        }
    }
}

/// A group of three replicas: the calling thread is leader and client, the others are threads.
pub trait Group {
    /// Appends `count` commands, at most `window` at a time without being committed; returns when the leader has
    /// applied them all. Gives the sum that it has come to since the beginning.
    fn append(&mut self, window: u64, count: u64) -> u64;
}

pub struct Handle(Box<dyn Group>);

/// # Safety
/// `kind` is a C string. The threads of the followers run where the calling thread may run.
#[no_mangle]
pub unsafe extern "C" fn peers_log_open(kind: *const std::ffi::c_char, polls: bool) -> *mut Handle {
    let group: Box<dyn Group> = match unsafe { std::ffi::CStr::from_ptr(kind) }.to_str() {
        Ok("raft") => Box::new(raft_log::Raft::new(polls)),
        Ok("omnipaxos") => Box::new(omni::Omni::new(polls)),
        _ => return std::ptr::null_mut(),
    };
    Box::into_raw(Box::new(Handle(group)))
}

/// # Safety
/// `group` is of peers_log_open().
#[no_mangle]
pub unsafe extern "C" fn peers_log_append(group: *mut Handle, window: u64, count: u64) -> u64 {
    unsafe { &mut *group }.0.append(window, count)
}

/// # Safety
/// `group` is of peers_log_open(), and is not used again.
#[no_mangle]
pub unsafe extern "C" fn peers_log_close(group: *mut Handle) {
    drop(unsafe { Box::from_raw(group) });
}
