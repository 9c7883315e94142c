package offer

import "sync"

// Ownership knows our resource names. These are the names in any mode and the names in all rules since startup, because
// containers may still hold devices under them. It is safe for concurrent use.
type Ownership struct {
	naming Naming   // at startup
	named  sync.Map // resource names of later rules
}

// NewOwnership returns the ownership for resources with this naming.
func NewOwnership(p Naming) *Ownership { return &Ownership{naming: p} }

// Add adds the resource names in rules. They stay until the daemon exits.
func (o *Ownership) Add(rules []Rule) {
	for _, r := range rules {
		o.named.Store(r.Resource, true)
	}
}

// Owns reports whether an id that is held under a resource name may belong to one of this plugin's devices. See
// [Naming.Owns].
func (o *Ownership) Owns(resource, id string) bool {
	_, named := o.named.Load(resource)
	return named || o.naming.Owns(resource, id)
}
