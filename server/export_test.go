package server

import (
	"go.uber.org/zap"
	"google.golang.org/grpc/grpclog"
)

// NewLibraryLog returns the logger that the grpc library is given.
func NewLibraryLog(log *zap.Logger) grpclog.LoggerV2 { return newLibraryLog(log) }
