// Package controllers publishes in the status of each mapping the resource that its name stands
// for, or why it stands for none.
//
// Admission does not read the status: it derives the same from the object. One replica writes at
// a time, the leader. The package keeps no state; a reconciliation blocks while it writes a
// status.
package controllers
