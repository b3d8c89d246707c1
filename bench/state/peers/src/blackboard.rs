//! The blackboard of iceoryx2: values of 16 bytes under keys of 8 that are all there from the beginning; one writer, any
//! number of readers, in any process.

use iceoryx2::port::reader::{EntryHandle, Reader};
use iceoryx2::port::writer::{EntryHandleMut, Writer};
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::blackboard::PortFactory;
use std::ffi::{c_char, CStr};

type Value = [u64; 2];
type Service = ipc::Service;

pub struct Board {
    name: String,
    _node: Node<Service>,
    service: PortFactory<Service, u64>,
}

pub struct Reading {
    entries: Vec<EntryHandle<Service, u64, Value>>,
    reader: Reader<Service, u64>,
    _board: Board,
}

pub struct Writing {
    entries: Vec<EntryHandleMut<Service, u64, Value>>,
    _writer: Writer<Service, u64>,
    _board: Board,
}

fn node() -> Node<Service> {
    NodeBuilder::new().create::<Service>().unwrap()
}

fn open(name: &str) -> Board {
    let node = node();
    let service = node
        .service_builder(&ServiceName::new(name).unwrap())
        .blackboard_opener::<u64>()
        .open()
        .unwrap();
    Board { name: name.to_string(), _node: node, service }
}

/// Makes the blackboard; the value of a key is the key twice.
///
/// # Safety
/// `name` is a C string, `keys` points to `count` of them.
#[no_mangle]
pub unsafe extern "C" fn peers_board_create(name: *const c_char, keys: *const u64, count: usize) -> *mut Board {
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap().to_string();
    let node = node();
    let mut creator = node
        .service_builder(&ServiceName::new(&name).unwrap())
        .blackboard_creator::<u64>()
        .max_readers(64)
        .max_nodes(64);
    for key in unsafe { std::slice::from_raw_parts(keys, count) } {
        creator = creator.add::<Value>(*key, [*key, *key]);
    }
    let service = creator.create().unwrap();
    Box::into_raw(Box::new(Board { name, _node: node, service }))
}

/// # Safety
/// `board` is of peers_board_create(), and is not used again.
#[no_mangle]
pub unsafe extern "C" fn peers_board_destroy(board: *mut Board) {
    drop(unsafe { Box::from_raw(board) });
}

/// A reader of this process, which holds the entries of all keys.
///
/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn peers_board_reader(board: *const Board, keys: *const u64, count: usize) -> *mut Reading {
    let board = open(&unsafe { &*board }.name);
    let reader = board.service.reader_builder().create().unwrap();
    let keys = unsafe { std::slice::from_raw_parts(keys, count) };
    let entries = keys.iter().map(|key| reader.entry::<Value>(key).unwrap()).collect();
    Box::into_raw(Box::new(Reading { entries, reader, _board: board }))
}

/// The writer.
///
/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn peers_board_writer(board: *const Board, keys: *const u64, count: usize) -> *mut Writing {
    let board = open(&unsafe { &*board }.name);
    let writer = board.service.writer_builder().create().unwrap();
    let keys = unsafe { std::slice::from_raw_parts(keys, count) };
    let entries = keys.iter().map(|key| writer.entry::<Value>(key).unwrap()).collect();
    Box::into_raw(Box::new(Writing { entries, _writer: writer, _board: board }))
}

/// # Safety
/// They are of the functions above, and not used again; `writing` may be null.
#[no_mangle]
pub unsafe extern "C" fn peers_board_leave(reading: *mut Reading, writing: *mut Writing) {
    drop(unsafe { Box::from_raw(reading) });
    if !writing.is_null() {
        drop(unsafe { Box::from_raw(writing) });
    }
}

/// The value of the key with this number, by the entry that the reader holds.
///
/// # Safety
/// `value` points to two words.
#[no_mangle]
pub unsafe extern "C" fn peers_board_get(reading: *const Reading, number: usize, value: *mut Value) {
    unsafe { *value = *(&*reading).entries[number].get() };
}

/// The value of a key, looked up as in a map.
///
/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn peers_board_look_up(reading: *const Reading, key: u64, value: *mut Value) -> bool {
    match unsafe { &*reading }.reader.entry::<Value>(&key) {
        Ok(entry) => {
            unsafe { *value = *entry.get() };
            true
        }
        Err(_) => false,
    }
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn peers_board_put(writing: *const Writing, number: usize, value: *const Value) {
    unsafe { (&*writing).entries[number].update_with_copy(*value) };
}
