// Package view formats devices for users and programs: the rows of `devices` and `/devices`, and the lines of `watch`.
// It owns no state, and its functions don't block, except to write.
package view
