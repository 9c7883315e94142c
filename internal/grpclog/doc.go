// Package grpclog sends the grpc library's log lines to zap. It owns no state, but the library has a single logger for
// the whole process.
package grpclog
