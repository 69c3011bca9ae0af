//! Checking the invariants, for tests.

use super::Vmos;
use super::family::Family;
use super::object::{Kind, NodeId};
use crate::machine::memory::{Memory, Place};
use crate::pages::entry::Entry;
use crate::pages::interval::Bound;
use crate::pages::queues::standing::{Queue, Standing};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// Looks at everything, family by family, and counts again what is counted: for tests.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check_invariants(&self) {
        for node in 1..=self.objects.handed_out() {
            let lock = self.objects.get(node).family();
            if lock == 0 {
                continue;
            }
            let family = self.hold_family(lock);
            if self.objects.get(node).family() == lock {
                family.check(node);
            }
        }
    }
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Family<'_, M, C, S> {
    fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        let objects = &self.vmos.objects;
        (1..=objects.handed_out()).filter(|&node| objects.get(node).family() == self.id())
    }

    fn check(&self, node: NodeId) {
        let object = self.object(node);
        let members = self.engine().tables.segment(self.id()).members.get();
        assert_eq!(members as usize, self.members().count(), "members");
        self.check_relations(node);
        let flagged = object.kind() == Kind::Vmo && object.intervals.get() != 0;
        self.check_intervals(node, flagged);
        let mut next = 0;
        while let Some((at, found)) = self.next_own(node, next, u64::MAX) {
            next = at + 1;
            let sensitive = self.entries(found.place.0).queue() == Queue::HighPriority;
            let marked = object.marks.get() > 0;
            assert_eq!(sensitive, marked, "the queue of its segment");
            if let Entry::Page(record) = found.entry {
                let pinned = object.kind() == Kind::Vmo && self.count(found.place) > 0;
                self.check_record(record, found.place, pinned, sensitive);
            }
            self.check_viewers(node, at, found.place);
        }
        let segments = self.check_segments(node);
        let account = self.engine().tables.account(object.account.get()).now();
        let counted = (account.committed_pages, account.content_pages);
        assert_eq!(counted, segments, "the account");
    }

    /// V1, V3, and what is summed up along the tree.
    fn check_relations(&self, node: NodeId) {
        let object = self.object(node);
        let parent = object.parent.get();
        if parent != 0 {
            assert_eq!(self.object(parent).kind(), Kind::Hidden);
            let same = self.children(parent).filter(|&child| child == node);
            assert_eq!(same.count(), 1, "V1: a child of its parent");
        }
        match object.kind() {
            Kind::Free => panic!("a member that is free"),
            Kind::Vmo => {
                assert!(
                    parent == 0 || object.parent_limit.get() <= object.end_position(),
                    "V3: sees its parent beyond its end"
                );
                assert_eq!(object.pinned.get(), self.count_pinned(node), "pinned");
            }
            Kind::Hidden => {
                let children = self.children(node);
                let ours = |&child: &NodeId| self.object(child).parent.get() == node;
                assert!(children.filter(ours).count() > 1, "V1");
                let children = self.children(node);
                let marks = children.map(|child| self.object(child).marks.get());
                assert_eq!(object.marks.get(), marks.sum::<u32>(), "marks");
            }
        }
    }

    /// The record of a page stands in the queue that its VMO wants, and names its entry.
    fn check_record(&self, record: u32, place: Place, pinned: bool, sensitive: bool) {
        let engine = self.engine();
        let standing = engine.queues.lock().standing(record);
        match standing {
            Standing::In(Queue::Wired) => assert!(pinned, "wired, not pinned"),
            Standing::In(Queue::HighPriority) => assert!(sensitive && !pinned),
            Standing::In(Queue::Dirty) => {
                assert!(!pinned && self.queue_of(place) == Queue::Dirty);
            }
            _ => assert!(!pinned && !sensitive, "{standing:?}"),
        }
        assert_eq!(
            engine.queues.record(record).backlink(),
            place,
            "page list I2"
        );
    }

    /// V2 and V3: an entry is seen by as many VMOs as its counter says, or by its owner.
    fn check_viewers(&self, node: NodeId, at: u64, place: Place) {
        let viewers = self.members().filter(|&viewer| {
            let object = self.object(viewer);
            let range = object.base.get()..object.end_position();
            let sees = || self.find(viewer, at).map(|seen| seen.place);
            object.kind() == Kind::Vmo && range.contains(&at) && sees() == Some(place)
        });
        let viewers = viewers.count() as u32;
        match self.object(node).kind() {
            Kind::Hidden => {
                let has_counts = self.entries(place.0).counts(place.1).is_some();
                assert!(has_counts, "V4: a hidden leaf without counters");
                assert!(viewers > 0, "V2: position {at} is seen by nobody");
                assert_eq!(self.count(place), viewers - 1, "V2: position {at}");
            }
            _ => assert_eq!(viewers, 1, "V3: position {at} is its owner's"),
        }
    }

    /// V5, and Z1 of page lists (`pages`).
    fn check_intervals(&self, node: NodeId, may_be_there: bool) {
        let (mut next, mut open) = (0, None);
        while let Some((at, found)) = self.next_in(node, &self.object(node).root, next, u64::MAX) {
            next = at + 1;
            let part = match found.entry {
                Entry::ZeroInterval(bound, state) => Some((bound, state)),
                _ => None,
            };
            assert!(part.is_none() || may_be_there, "V5: position {at}");
            match (open.take(), part) {
                (None, Some((Bound::Start, state))) => open = Some(state),
                (Some(before), Some((Bound::End, state))) => assert_eq!(before, state, "Z1"),
                (None, None | Some((Bound::One, _))) => {}
                wrong => panic!("Z1: position {at}: {wrong:?}"),
            }
        }
        assert_eq!(open, None, "Z1");
    }

    fn check_segments(&self, node: NodeId) -> (u64, u64) {
        let (mut number, mut sum) = (0, (0, 0));
        while let Some((at, segment)) = self.directory(node).at_or_after(number) {
            let entries = self.entries(segment);
            let (mut committed, mut content, mut next) = (0, 0, 0);
            while let Some((index, entry)) = entries.next(next) {
                committed += u32::from(entry.is_committed());
                content += u32::from(entry.is_content());
                next = index + 1;
            }
            assert_eq!(
                (entries.committed(), entries.content()),
                (committed, content),
                "page list I4"
            );
            sum = (sum.0 + u64::from(committed), sum.1 + u64::from(content));
            number = at + 1;
        }
        sum
    }
}
