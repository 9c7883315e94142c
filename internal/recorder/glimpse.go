package recorder

import (
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// glimpse is how a device looked in the newest snapshot, said or not.
type glimpse struct {
	kind   kind // removed where it is not listed
	listed bool
	came   time.Time // it was listed
	since  time.Time // it became of that kind
}

// glance notes what is otherwise in a snapshot than in the one before, whether that
// lasts or not: so each change has the time at which it was seen, as it has in the
// log, and not that of the first one of many.
func (f *following) glance(s inventory.Snapshot, at time.Time) {
	if s.Version == 0 {
		return
	}
	for _, d := range s.Devices {
		was, known := f.glimpse(d.ID)
		is := glimpse{kind: kindOf(d, was.kind), listed: true, came: was.came, since: was.since}
		if !was.listed {
			is.came = at
		}
		if !known || is.kind != was.kind {
			is.since = at
		}
		f.glimpses[d.ID] = is
	}
	for id := range f.seen {
		f.miss(s, id, at)
	}
	for id := range f.glimpses {
		f.miss(s, id, at)
	}
}

// glimpse is the last one of a device; false: there is none.
func (f *following) glimpse(id string) (glimpse, bool) {
	if g, ok := f.glimpses[id]; ok {
		return g, true
	}
	was, ok := f.seen[id]
	return glimpse{was.kind, ok, was.came, was.since}, ok
}

// miss notes that a device is not listed any more, where it was.
func (f *following) miss(s inventory.Snapshot, id string, at time.Time) {
	was, _ := f.glimpse(id)
	if !was.listed || s.Device(id) != nil {
		return
	}
	is := glimpse{kind: removed, came: was.came, since: at}
	if was.kind == removed { // and was listed until it was known who holds it
		is.since = was.since
	}
	f.glimpses[id] = is
}
