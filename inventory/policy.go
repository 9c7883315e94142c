package inventory

// Policy is what the operator says about devices. It is immutable.
type Policy struct {
	// Exclude names cards (BB:DD.F, with a domain DDDD: where it is not 0) and
	// single ports (the same with -pN, port 0 too) that are offered to nobody.
	Exclude map[string]bool
	// Severity overrules how bad a condition is, by its [Condition.Row] or the NAME
	// of that. Healthy: it does not count at all.
	Severity map[string]Health
}
