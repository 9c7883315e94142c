// Package controllers writes the status of each mapping: the resource that its name stands for, or
// the reason why it stands for none.
//
// Admission does not read the status: it derives the resource from the object. Only the leader writes.
// The package keeps no state; a reconciliation blocks while it writes a status.
package controllers
