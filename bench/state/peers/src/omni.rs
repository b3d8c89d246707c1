//! The crate `omnipaxos`: three nodes with its own storage in memory. Nobody ticks: the leader is made one at the
//! beginning, and there are no heartbeats.

use crate::{one, receive, term, Command, Group};
use crossbeam_channel::{unbounded, Receiver, Sender};
use omnipaxos::macros::Entry;
use omnipaxos::messages::Message;
use omnipaxos::util::LogEntry;
use omnipaxos::{ClusterConfig, OmniPaxos, OmniPaxosConfig, ServerConfig};
use omnipaxos_storage::memory_storage::MemoryStorage;
use std::thread::JoinHandle;

#[derive(Clone, Debug, Entry)]
struct Add(Command);

/// None ends a follower.
type Letter = Option<Message<Add>>;

struct Node {
    node: OmniPaxos<Add, MemoryStorage<Add>>,
    others: Vec<Option<Sender<Letter>>>,
    outgoing: Vec<Message<Add>>,
    sum: u64,
    applied: usize,
}

impl Node {
    fn new(pid: u64, others: Vec<Option<Sender<Letter>>>) -> Node {
        let config = OmniPaxosConfig {
            cluster_config: ClusterConfig { configuration_id: 1, nodes: vec![1, 2, 3], ..Default::default() },
            server_config: ServerConfig { pid, ..Default::default() },
        };
        let node = config.build(MemoryStorage::default()).unwrap();
        Node { node, others, outgoing: Vec::new(), sum: 0, applied: 0 }
    }

    fn send(&mut self) {
        self.node.take_outgoing_messages(&mut self.outgoing);
        for message in self.outgoing.drain(..) {
            if let Some(channel) = &self.others[message.get_receiver() as usize] {
                let _ = channel.send(Some(message));
            }
        }
    }

    fn apply(&mut self) {
        let decided = self.node.get_decided_idx();
        if decided == self.applied {
            return;
        }
        for entry in self.node.read_decided_suffix(self.applied).unwrap_or_default() {
            if let LogEntry::Decided(Add(command)) = entry {
                self.sum += term(&command);
            }
            self.applied += 1;
        }
    }
}

fn follow(mut node: Node, inbox: Receiver<Letter>, polls: bool) {
    while let Some(Some(message)) = receive(&inbox, polls) {
        node.node.handle_incoming(message);
        while let Ok(letter) = inbox.try_recv() {
            match letter {
                Some(message) => node.node.handle_incoming(message),
                None => return,
            }
        }
        node.send();
        node.apply();
    }
}

pub struct Omni {
    leader: Node,
    inbox: Receiver<Letter>,
    followers: Vec<(Sender<Letter>, JoinHandle<()>)>,
    polls: bool,
}

impl Omni {
    pub fn new(polls: bool) -> Omni {
        let (outs, ins): (Vec<_>, Vec<_>) = (0..3).map(|_| unbounded::<Letter>()).unzip();
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
        let mut made = Omni { leader: Node::new(1, others(1)), inbox: ins[0].clone(), followers, polls };
        made.leader.node.try_become_leader();
        // Until both followers are in its phase: a first command is decided by all.
        while made.leader.node.get_current_leader() != Some((1, true)) {
            made.leader.send();
            let message = receive(&made.inbox, polls).unwrap().unwrap();
            made.leader.node.handle_incoming(message);
        }
        made.leader.send();
        made
    }
}

impl Group for Omni {
    fn append(&mut self, window: u64, count: u64) -> u64 {
        let first = self.leader.applied as u64;
        let mut proposed = first;
        while (self.leader.applied as u64) < first + count {
            while proposed < first + count && proposed - (self.leader.applied as u64) < window {
                self.leader.node.append(Add(one())).unwrap();
                proposed += 1;
            }
            self.leader.send();
            if proposed == first + count || proposed - (self.leader.applied as u64) == window {
                let message = receive(&self.inbox, self.polls).unwrap().unwrap();
                self.leader.node.handle_incoming(message);
            }
            while let Ok(Some(message)) = self.inbox.try_recv() {
                self.leader.node.handle_incoming(message);
            }
            self.leader.apply();
        }
        self.leader.send();
        self.leader.sum
    }
}

impl Drop for Omni {
    fn drop(&mut self) {
        for (channel, thread) in self.followers.drain(..) {
            let _ = channel.send(None);
            let _ = thread.join();
        }
    }
}
