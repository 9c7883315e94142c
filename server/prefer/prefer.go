package prefer

import (
	"fmt"
	"slices"
	"strings"
)

// Policy says which choice is the best one.
type Policy string

// The policies, explained in the package's documentation.
const (
	Packed Policy = "packed" // close together, leaving whole cards whole
	Spread Policy = "spread" // over as many cards as possible
)

// Policies lists the policies that there are.
func Policies() []string { return []string{string(Packed), string(Spread)} }

// Unit is one allocatable thing of a resource.
type Unit struct {
	ID       string
	Card     string // what units share, e.g. 0000:3b:00.0; "": a card of its own
	NUMANode int    // -1: none
	Degraded bool
}

// Choose returns the ids of the best size units of those available, sorted, the
// musts among them, or of all when there are fewer. The list is the resource's
// whole one, with the units that others hold; available includes must. Nothing
// that is passed is changed.
//
// It is an error if size is negative or below the number of musts, and if there
// is no such policy.
func Choose(listed []Unit, available, must []string, size int, policy Policy) ([]string, error) {
	if !slices.Contains(Policies(), string(policy)) {
		return nil, fmt.Errorf("allocation policy %.100q is not one of %s", policy, strings.Join(Policies(), ", "))
	}
	if size < 0 {
		return nil, fmt.Errorf("allocation size %d is negative", size)
	}
	units, musts := candidates(listed, available, must)
	if musts > size {
		return nil, fmt.Errorf("%d devices must be included in an allocation of %d", musts, size)
	}
	chosen := best(units, min(size, len(units)), policy)
	ids := make([]string, len(chosen))
	for i, rank := range chosen {
		ids[i] = units[rank].id
	}
	return ids, nil
}
