// Package grpclog sends the grpc library's log lines to zap. It owns no state of its own: the library's logger applies
// to the whole process.
package grpclog
