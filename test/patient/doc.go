// Package patient helps tests wait: either for a condition, with a limit that a working program never reaches even on a
// busy machine, or for a period in which nothing must happen.
//
// Its functions block, and are safe for concurrent use.
package patient
