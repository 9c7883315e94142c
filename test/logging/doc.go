// Package logging tests the example in deploy/logging. A real OpenTelemetry Collector ships a recording of the daemon's
// log, in the container runtime's format, to the test's OTLP server. See run.sh.
package logging
