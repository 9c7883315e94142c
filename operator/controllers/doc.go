// Package controllers writes the status of each mapping: the resource that its name stands for, or the reason why it
// does not stand for any.
//
// Admission does not read the status: it derives the resource from the object. Only the leader writes statuses. The
// package keeps no state. A reconciliation blocks while it writes a status.
package controllers
