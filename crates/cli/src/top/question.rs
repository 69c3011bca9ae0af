//! Questions to pagers, which may take seconds to answer: each has a thread, and the screen goes on.

use super::model::Model;
use super::reading::Key;
use crate::by_mapping::{self, Line};
use crate::set;
use crate::statistics_file::Live;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// An answer.
enum Answer {
    Mappings(Key, Result<Vec<Line>, String>),
    Budget(Result<String, String>),
}

/// Questions that are under way, and their answers.
pub struct Questions {
    sender: Sender<Answer>,
    receiver: Receiver<Answer>,
    waiting: Vec<JoinHandle<()>>,
}

impl Questions {
    /// None.
    pub fn new() -> Self {
        let (sender, receiver) = channel();
        Self {
            sender,
            receiver,
            waiting: Vec::new(),
        }
    }

    /// Whether an answer is being waited for.
    pub fn are_open(&self) -> bool {
        self.waiting.iter().any(|thread| !thread.is_finished())
    }

    fn ask(&mut self, question: impl FnOnce() -> Answer + Send + 'static) {
        let sender = self.sender.clone();
        self.waiting.retain(|thread| !thread.is_finished());
        self.waiting.push(thread::spawn(move || {
            // Nobody is there for the answer where the command ends.
            let _ = sender.send(question());
        }));
    }

    /// What each mapping of a process holds.
    pub fn mappings(&mut self, of: Key, live: Live) {
        self.ask(move || Answer::Mappings(of, by_mapping::ask(&live)));
    }

    /// Sets a budget.
    pub fn budget(&mut self, of: Key, text: String) {
        self.ask(move || {
            let set = set::set_budget(of.pid, of.start_ticks, &text);
            Answer::Budget(set.map_err(|refusal| refusal.in_one_line().to_string()))
        });
    }

    /// Tells the model what has been answered.
    pub fn tell(&self, model: &mut Model) {
        for answer in self.receiver.try_iter() {
            match answer {
                Answer::Mappings(of, told) => model.mappings_told(of, told),
                Answer::Budget(Ok(line)) => model.say(line),
                Answer::Budget(Err(why)) => model.complain(why),
            }
        }
    }

    /// Waits for all that is under way: a request that is left alone is carried out behind everybody's back.
    pub fn finish(self) {
        for thread in self.waiting {
            let _ = thread.join();
        }
    }
}
