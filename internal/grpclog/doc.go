// Package grpclog sends the grpc library's log lines to zap. It owns no state, but the library's logger is global to
// the process.
package grpclog
