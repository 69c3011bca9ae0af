//! What a thread works with inside the engine: a worker with its page, and a compressor with its state and its slot.
//!
//! A thread that reads or writes borrows a context for the call, so that a disk needs as many as threads are inside
//! at a time, and no thread has to say when it ends. Beyond [`MOST`] they wait.

use crate::codec::DiskCodec;
use crate::mapping::Mapping;
use crate::waiters::{MOST, Waiters};
use coldpress_arena::Zeroable;
use coldpress_codec::{AnyState, PAGE_SIZE};
use coldpress_engine::{Reclaimer, Worker, Workspace};
use parking_lot::{Condvar, Mutex};
use std::ops::{Deref, DerefMut};

/// The memory of a context. Zeroed memory is one.
#[repr(C, align(4096))]
struct Room {
    workspace: Workspace<DiskCodec>,
    buffer: [u8; PAGE_SIZE],
    state: AnyState,
}

// SAFETY: three types that are themselves `Zeroable`; nothing to drop.
unsafe impl Zeroable for Room {}

pub(crate) struct Context {
    /// That of its worker.
    number: u16,
    /// Refers to `_room`, and goes before it: fields are dropped in their order.
    reclaimer: Reclaimer<DiskCodec>,
    _room: Mapping,
}

impl Context {
    /// The context of this number, which no other has. `None`: no memory.
    fn new(number: u16) -> Option<Self> {
        let memory = Mapping::new(size_of::<Room>())?;
        // SAFETY: as large, aligned to a page, zero, which is valid; it stays where it is as long as `_room` lives,
        // which is as long as the reclaimer that gets the reference.
        let room: &'static mut Room = unsafe { memory.start().cast::<Room>().as_mut() };
        let worker = Worker::new(number, &mut room.workspace);
        let slots = number..number + 1;
        Some(Self {
            number,
            reclaimer: Reclaimer::new(&mut room.state, &mut room.buffer, worker, slots),
            _room: memory,
        })
    }

    pub(crate) fn worker(&mut self) -> &mut Worker<DiskCodec> {
        self.reclaimer.worker()
    }

    pub(crate) fn reclaimer(&mut self) -> &mut Reclaimer<DiskCodec> {
        &mut self.reclaimer
    }
}

#[derive(Default)]
struct Idle {
    contexts: Vec<Context>,
    made: u16,
}

/// Contexts that are not borrowed.
#[derive(Default)]
pub(crate) struct Contexts {
    /// A leaf: held for a few words, and for making a context.
    idle: Mutex<Idle>,
    returned: Condvar,
}

impl Contexts {
    /// Borrows a context; waits for one where [`MOST`] are borrowed. Its worker is the calling thread to those that wait
    /// for it.
    pub(crate) fn borrow<'a>(&'a self, waiters: &'a Waiters) -> Borrowed<'a> {
        let context = self.take();
        waiters.works(context.number);
        Borrowed {
            context: Some(context),
            of: self,
            waiters,
        }
    }

    fn take(&self) -> Context {
        let mut idle = self.idle.lock();
        loop {
            if let Some(context) = idle.contexts.pop() {
                return context;
            }
            if idle.made < MOST
                && let Some(context) = Context::new(idle.made)
            {
                idle.made += 1;
                return context;
            }
            assert!(idle.made > 0, "no memory for the first context");
            self.returned.wait(&mut idle);
        }
    }
}

/// A context, until it is dropped.
pub(crate) struct Borrowed<'a> {
    context: Option<Context>,
    of: &'a Contexts,
    waiters: &'a Waiters,
}

impl Deref for Borrowed<'_> {
    type Target = Context;

    fn deref(&self) -> &Context {
        self.context.as_ref().expect("given back when dropped")
    }
}

impl DerefMut for Borrowed<'_> {
    fn deref_mut(&mut self) -> &mut Context {
        self.context.as_mut().expect("given back when dropped")
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.waiters.is_done();
        let context = self.context.take();
        self.of.idle.lock().contexts.extend(context);
        self.of.returned.notify_one();
    }
}
