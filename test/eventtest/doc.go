// Package eventtest checks tests' log lines against the catalogue in package logevent. Each line must have exactly one
// declared event, and one of the event's levels. It must contain all of the event's required fields and no undeclared
// ones, each of them once and with the right type. The package's only state is in its cores.
package eventtest
