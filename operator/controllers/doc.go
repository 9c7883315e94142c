// Package controllers writes each mapping's status: the resource that the mapping's name stands for, or the reason why
// there is none.
//
// Admission doesn't read the status, but derives the resource from the object's spec. Only the leader writes statuses.
// The package keeps no state. A reconciliation blocks while it writes a status.
package controllers
