// Package view shows devices to people and programs: the rows of `devices` and
// `/devices`, and the lines of `watch`. It owns no state; all of it is pure
// formatting.
package view
