package offer

import "sync"

// Ownership knows the names of our resources. These are the names in any mode, and the names in all rules since the
// start, because containers may still hold devices under them. It is safe for concurrent use.
type Ownership struct {
	naming Naming   // at the start
	named  sync.Map // resource names of later rules
}

// NewOwnership returns the ownership of the resources with this naming.
func NewOwnership(p Naming) *Ownership { return &Ownership{naming: p} }

// Add adds the resource names of rules. They stay until the daemon ends.
func (o *Ownership) Add(rules []Rule) {
	for _, r := range rules {
		o.named.Store(r.Resource, true)
	}
}

// Owns reports whether an id that is held under the name of a resource may be a device of this plugin. See
// [Naming.Owns].
func (o *Ownership) Owns(resource, id string) bool {
	_, named := o.named.Load(resource)
	return named || o.naming.Owns(resource, id)
}
