// Package grpclog sends the log lines of the grpc library to zap. It owns no state of its own: the logger of the library
// applies to the whole process.
package grpclog
