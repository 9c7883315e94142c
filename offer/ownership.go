package offer

import "sync"

// Ownership has the names of our resources: the names in any mode, and the names in all rules since the
// start, because containers may still hold devices under them. It is safe for concurrent use.
type Ownership struct {
	policy Policy   // at the start
	named  sync.Map // resource names of later rules
}

// NewOwnership returns the ownership of a policy.
func NewOwnership(p Policy) *Ownership { return &Ownership{policy: p} }

// Add adds the resource names of rules. They stay until the daemon ends.
func (o *Ownership) Add(rules []Rule) {
	for _, r := range rules {
		o.named.Store(r.Resource, true)
	}
}

// Owns reports whether an id that is held under the name of a resource may be a device of this plugin: see
// [Policy.Owns].
func (o *Ownership) Owns(resource, id string) bool {
	_, named := o.named.Load(resource)
	return named || o.policy.Owns(resource, id)
}
