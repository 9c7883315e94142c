// Package view formats devices for users and programs: the rows of `devices` and `/devices`, and
// the lines of `watch`. It owns no state, and its functions do not block, except for writing.
package view
