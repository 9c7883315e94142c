package keep

import "context"

// RunWith is Run with another source of changes of the list.
func (k *Keeper) RunWith(ctx context.Context, watch func(changed func())) error {
	return k.run(ctx, watch)
}

// ParseList parses the text of a list, and returns the number of references.
func ParseList(text string) (int, error) {
	refs, err := parseList(text)
	return len(refs), err
}
