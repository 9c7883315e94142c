// Package logging tests the example in deploy/logging. A real OpenTelemetry Collector ships a recorded log of the
// daemon, in the format of the container runtime, to an OTLP server in the test. See run.sh.
package logging
