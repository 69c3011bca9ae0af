//! Promise: the page queues do what a plain model of them does, whatever is asked of them in whatever
//! order.

use crate::machine::*;
use coldpress_engine::Trigger;
use coldpress_engine::harvest::Harvest;
use coldpress_engine::queues::GENERATIONS;
use coldpress_engine::queues::standing::{Mark, Marking, Queue, Standing};
use proptest::prelude::*;

const PAGES: u32 = 10;

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u32),
    Drop(u32),
    Touch(u32),
    Move(u32, Queue),
    Mark(u32, Mark, Marking),
    Rotate,
    Harvest,
    /// Of pages that were last known to be touched so many rotations ago, or whenever.
    Reclaim(Trigger, Option<u64>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let queue = prop::sample::select(vec![
        Queue::Reclaim,
        Queue::DontNeed,
        Queue::Failed,
        Queue::ZeroFork,
        Queue::HighPriority,
        Queue::Wired,
        Queue::Dirty,
    ]);
    let mark = prop::sample::select(vec![Mark::PagerBacked, Mark::AlwaysNeed]);
    let marking = prop::sample::select(vec![Marking::Set, Marking::Clear]);
    let trigger = prop::sample::select(vec![Trigger::Eager, Trigger::Pressure, Trigger::Critical]);
    let page = 0..PAGES;
    prop::collection::vec(
        prop_oneof![
            6 => page.clone().prop_map(Step::Write),
            1 => page.clone().prop_map(Step::Drop),
            2 => page.clone().prop_map(Step::Touch),
            3 => (page.clone(), queue).prop_map(|(page, queue)| Step::Move(page, queue)),
            2 => (page, mark, marking).prop_map(|(page, mark, marking)| Step::Mark(page, mark, marking)),
            6 => Just(Step::Rotate),
            1 => Just(Step::Harvest),
            5 => (trigger, prop::option::of(0..10u64)).prop_map(|(t, ago)| Step::Reclaim(t, ago)),
        ],
        1..200,
    )
}

/// Where a page stands, as the model has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Nothing is remembered.
    Nowhere,
    Away,
    /// In the generation that was opened as this one.
    Generation(u64),
    Isolated,
    In(Queue),
}

#[derive(Clone, Copy, Debug)]
struct Page {
    at: At,
    /// When it came there, counted up: the order in its queue.
    since: u64,
    pager_backed: bool,
    always_needed: bool,
    accessed: bool,
}

/// The queues as a list of pages, each of which says where it stands.
struct Model {
    pages: Vec<Page>,
    /// Which generation is the newest.
    newest: u64,
    /// When each generation was closed.
    closed_ns: Vec<u64>,
    isolated_closed_ns: u64,
    moves: u64,
}

impl Model {
    fn new() -> Self {
        let page = Page {
            at: At::Nowhere,
            since: 0,
            pager_backed: false,
            always_needed: false,
            accessed: false,
        };
        Self {
            pages: vec![page; PAGES as usize],
            newest: 0,
            closed_ns: Vec::new(),
            isolated_closed_ns: 0,
            moves: 0,
        }
    }

    fn put(&mut self, page: usize, at: At) {
        self.moves += 1;
        let page = &mut self.pages[page];
        (page.at, page.since) = (at, self.moves);
    }

    fn make_young(&mut self, page: usize) {
        self.put(page, At::Generation(self.newest));
    }

    fn is_resident(&self, page: usize) -> bool {
        !matches!(self.pages[page].at, At::Nowhere | At::Away)
    }

    fn write(&mut self, page: usize) {
        if !self.is_resident(page) {
            self.pages[page] = Page {
                accessed: false,
                ..Self::new().pages[0]
            };
            self.make_young(page);
        }
        self.pages[page].accessed = true;
    }

    fn touch(&mut self, page: usize) {
        let ages = matches!(
            self.pages[page].at,
            At::Generation(_) | At::Isolated | At::In(Queue::DontNeed | Queue::Failed)
        );
        if ages && self.pages[page].at != At::Generation(self.newest) {
            self.make_young(page);
        }
    }

    fn move_to(&mut self, page: usize, to: Queue) {
        match to {
            Queue::Reclaim | Queue::ZeroFork => self.make_young(page),
            _ => self.put(page, At::In(to)),
        }
        if to == Queue::DontNeed {
            self.pages[page].always_needed = false;
        }
    }

    fn mark(&mut self, page: usize, mark: Mark, marking: Marking) {
        let on = marking == Marking::Set;
        match mark {
            Mark::PagerBacked => self.pages[page].pager_backed = on,
            Mark::AlwaysNeed => {
                let changed = self.pages[page].always_needed != on;
                self.pages[page].always_needed = on;
                if changed && on {
                    self.touch(page);
                }
            }
        }
    }

    fn rotate(&mut self, now_ns: u64) {
        self.closed_ns.push(now_ns);
        self.newest += 1;
        // What is older than all generations, in its order.
        let Some(beyond) = self.newest.checked_sub(GENERATIONS as u64) else {
            return;
        };
        for page in self.queue(At::Generation(beyond)) {
            self.put(page, At::Isolated);
            self.isolated_closed_ns = self.closed_ns[beyond as usize];
        }
    }

    /// The pages of a queue, in their order.
    fn queue(&self, at: At) -> Vec<usize> {
        let mut pages: Vec<usize> = (0..self.pages.len())
            .filter(|&page| self.pages[page].at == at)
            .collect();
        pages.sort_by_key(|&page| self.pages[page].since);
        pages
    }

    /// The page that is compressed next.
    fn reclaim(&mut self, trigger: Trigger, before_ns: u64) -> Option<usize> {
        let mut queues = vec![At::In(Queue::DontNeed)];
        if self.isolated_closed_ns <= before_ns {
            queues.push(At::Isolated);
        }
        let oldest = self.newest.saturating_sub(GENERATIONS as u64 - 1);
        for generation in oldest..self.newest.saturating_sub(1) {
            if self.closed_ns[generation as usize] <= before_ns {
                queues.push(At::Generation(generation));
            }
        }
        for at in queues {
            for page in self.queue(at) {
                if trigger == Trigger::Critical {
                    self.pages[page].always_needed = false;
                }
                if self.pages[page].always_needed {
                    self.make_young(page);
                } else if self.pages[page].pager_backed {
                    self.put(page, at);
                } else {
                    self.pages[page].at = At::Away;
                    return Some(page);
                }
            }
        }
        None
    }

    fn standing(&self, page: usize) -> Option<Standing> {
        match self.pages[page].at {
            At::Nowhere | At::Away => None,
            At::Generation(g) => Some(Standing::Generation((self.newest - g) as usize)),
            At::Isolated => Some(Standing::Isolated),
            At::In(queue) => Some(Standing::In(queue)),
        }
    }
}

fn run(steps: &[Step]) {
    let s = system(1, 64 * PAGES as usize);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    let (mut model, mut harvest) = (Model::new(), Harvest::new());
    for (n, &step) in steps.iter().enumerate() {
        match step {
            Step::Write(page) => {
                s.write(&mut w, 1, page * 64, &content(Kind::Text, page.into()));
                model.write(page as usize);
            }
            Step::Drop(page) => {
                s.decommit(1, page * 64, page * 64 + 1);
                model.pages[page as usize].at = At::Nowhere;
            }
            Step::Touch(page) => {
                s.engine.mark_accessed(1, page * 64);
                model.touch(page as usize);
            }
            Step::Move(page, to) => {
                let moved = s.engine.move_page(1, page * 64, to);
                assert_eq!(moved, model.is_resident(page as usize));
                if moved {
                    model.move_to(page as usize, to);
                }
            }
            Step::Mark(page, mark, marking) => {
                let marked = s.engine.mark_page(1, page * 64, mark, marking);
                assert_eq!(marked, model.is_resident(page as usize));
                if marked {
                    model.mark(page as usize, mark, marking);
                }
            }
            Step::Rotate => {
                s.machine.advance(1);
                s.engine.rotate(&s.machine);
                model.rotate(s.now_ns());
            }
            Step::Harvest => {
                s.engine.harvest(&s.machine, &mut harvest, u32::MAX);
                for page in 0..PAGES as usize {
                    if model.is_resident(page) && std::mem::take(&mut model.pages[page].accessed) {
                        model.touch(page);
                    }
                }
            }
            Step::Reclaim(trigger, ago) => {
                let before = ago.map_or(u64::MAX, |ago| s.now_ns() - ago);
                let batch = s
                    .engine
                    .reclaim_batch(&s.machine, &mut r, 1, before, trigger);
                let gone = model.reclaim(trigger, before);
                assert_eq!(batch.taken, u32::from(gone.is_some()), "step {n}: {step:?}");
            }
        }
        s.engine.check_queues();
        for page in 0..PAGES {
            assert_eq!(
                s.engine.standing(1, page * 64),
                model.standing(page as usize),
                "page {page} after step {n}: {step:?}"
            );
        }
    }
    for page in 0..PAGES {
        let expected = match model.pages[page as usize].at {
            At::Nowhere => [0; 4096],
            _ => content(Kind::Text, page.into()),
        };
        assert_eq!(s.read(&mut w, 1, page * 64), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn queues_do_what_their_model_does(steps in steps()) {
        run(&steps);
    }
}
