// Package eventtest checks the log lines of tests against the catalogue in package logevent. Each line must have
// exactly one declared event, and one of the event's levels. It must contain all of the event's required fields and no
// undeclared ones, each of them once and with the right type. The package owns no state other than a core's.
package eventtest
