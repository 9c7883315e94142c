package offer

import "sync"

// Ownership knows which resource names are ours. These include the names that the other modes use and the names in all
// rules since startup, because containers may still hold devices under them. It is safe for concurrent use.
type Ownership struct {
	naming Naming   // at startup
	named  sync.Map // resource names of later rules
}

// NewOwnership returns an Ownership for the resource names in p.
func NewOwnership(p Naming) *Ownership { return &Ownership{naming: p} }

// Add adds the resource names in rules. They stay ours for as long as the daemon runs.
func (o *Ownership) Add(rules []Rule) {
	for _, r := range rules {
		o.named.Store(r.Resource, true)
	}
}

// Owns reports whether a device that a container holds under this resource name and id may belong to this plugin. See
// [Naming.Owns].
func (o *Ownership) Owns(resource, id string) bool {
	_, named := o.named.Load(resource)
	return named || o.naming.Owns(resource, id)
}
