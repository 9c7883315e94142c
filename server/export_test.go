package server

import (
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/grpclog"
)

// NewBackoff returns a function that gives the waits of a backoff, and one that
// resets it.
func NewBackoff(shortest, longest time.Duration) (next func() time.Duration, reset func()) {
	b := &backoff{min: shortest, max: longest}
	return b.next, b.reset
}

// NewLibraryLog returns the logger that the grpc library is given.
func NewLibraryLog(log *zap.Logger) grpclog.LoggerV2 { return newLibraryLog(log) }
