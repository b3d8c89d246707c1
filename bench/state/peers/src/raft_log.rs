//! The crate `raft` (of TiKV): three nodes with its own storage in memory. No time passes for them: nobody ticks, so there
//! are no heartbeats and elections beside the one at the beginning.

use crate::{one, receive, term, Group};
use crossbeam_channel::{unbounded, Receiver, Sender};
use raft::eraftpb::{ConfState, Entry, Message};
use raft::storage::MemStorage;
use raft::{Config, RawNode, StateRole};
use std::thread::JoinHandle;

struct Node {
    node: RawNode<MemStorage>,
    others: Vec<Option<Sender<Message>>>,
    sum: u64,
    applied: u64,
}

impl Node {
    fn new(id: u64, others: Vec<Option<Sender<Message>>>) -> Node {
        let config = Config {
            id,
            max_size_per_msg: 1 << 20,
            max_inflight_msgs: 4096,
            batch_append: true,
            ..Default::default()
        };
        let storage = MemStorage::new_with_conf_state(ConfState::from((vec![1, 2, 3], vec![])));
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&config, storage, &logger).unwrap();
        Node { node, others, sum: 0, applied: 0 }
    }

    fn send(&self, messages: Vec<Message>) {
        for message in messages {
            if let Some(channel) = &self.others[message.to as usize] {
                let _ = channel.send(message);
            }
        }
    }

    fn apply(&mut self, entries: Vec<Entry>) {
        for entry in entries.iter().filter(|entry| !entry.data.is_empty()) {
            self.sum += term(&entry.data);
            self.applied += 1;
        }
    }

    /// As the crate's examples do it.
    fn work(&mut self) {
        if !self.node.has_ready() {
            return;
        }
        let mut ready = self.node.ready();
        self.send(ready.take_messages());
        let committed = ready.take_committed_entries();
        self.apply(committed);
        {
            let mut store = self.node.raft.raft_log.store.wl();
            if !ready.entries().is_empty() {
                store.append(ready.entries()).unwrap();
            }
            if let Some(state) = ready.hs() {
                store.set_hardstate(state.clone());
            }
        }
        self.send(ready.take_persisted_messages());
        let mut light = self.node.advance(ready);
        if let Some(commit) = light.commit_index() {
            self.node.raft.raft_log.store.wl().mut_hard_state().set_commit(commit);
        }
        self.send(light.take_messages());
        let committed = light.take_committed_entries();
        self.apply(committed);
        self.node.advance_apply();
    }

    /// All messages that are there.
    fn step_all(&mut self, inbox: &Receiver<Message>) {
        while let Ok(message) = inbox.try_recv() {
            self.node.step(message).unwrap();
        }
    }
}

fn follow(mut node: Node, inbox: Receiver<Message>, polls: bool) {
    while let Some(message) = receive(&inbox, polls) {
        if message.to == 0 {
            return;
        }
        node.node.step(message).unwrap();
        while let Ok(message) = inbox.try_recv() {
            if message.to == 0 {
                return;
            }
            node.node.step(message).unwrap();
        }
        node.work();
    }
}

pub struct Raft {
    leader: Node,
    inbox: Receiver<Message>,
    followers: Vec<(Sender<Message>, JoinHandle<()>)>,
    polls: bool,
}

impl Raft {
    pub fn new(polls: bool) -> Raft {
        let (outs, ins): (Vec<_>, Vec<_>) = (0..3).map(|_| unbounded::<Message>()).unzip();
        let others = |id: usize| {
            (0..4).map(|to| (to > 0 && to != id).then(|| outs[to - 1].clone())).collect::<Vec<_>>()
        };
        let followers = (2..4)
            .map(|id| {
                let node = Node::new(id as u64, others(id));
                let inbox = ins[id - 1].clone();
                (outs[id - 1].clone(), std::thread::spawn(move || follow(node, inbox, polls)))
            })
            .collect();
        let mut made = Raft { leader: Node::new(1, others(1)), inbox: ins[0].clone(), followers, polls };
        made.leader.node.campaign().unwrap();
        while made.leader.node.raft.state != StateRole::Leader {
            made.leader.work();
            made.leader.node.step(receive(&made.inbox, polls).unwrap()).unwrap();
        }
        made.leader.work();
        made
    }
}

impl Group for Raft {
    fn append(&mut self, window: u64, count: u64) -> u64 {
        let first = self.leader.applied;
        let mut proposed = first;
        while self.leader.applied < first + count {
            while proposed < first + count && proposed - self.leader.applied < window {
                self.leader.node.propose(vec![], one().to_vec()).unwrap();
                proposed += 1;
            }
            self.leader.work();
            if self.leader.applied == first + count {
                break;
            }
            if proposed == first + count || proposed - self.leader.applied == window {
                self.leader.node.step(receive(&self.inbox, self.polls).unwrap()).unwrap();
            }
            self.leader.step_all(&self.inbox);
            self.leader.work();
        }
        self.leader.sum
    }
}

impl Drop for Raft {
    fn drop(&mut self) {
        for (channel, thread) in self.followers.drain(..) {
            let _ = channel.send(Message::default());
            let _ = thread.join();
        }
    }
}
