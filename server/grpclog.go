package server

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapgrpc"
	"google.golang.org/grpc/grpclog"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// UseLogger sends the log lines of the grpc library to log: one setting for the
// whole process, to be made once and before anything uses grpc.
func UseLogger(log *zap.Logger) {
	grpclog.SetLoggerV2(newLibraryLog(log))
}

// libraryLog is grpc's logger. What the library calls information is of use to
// its developers only and goes to Debug.
type libraryLog struct {
	*zapgrpc.Logger
	debug *zap.SugaredLogger
}

func newLibraryLog(log *zap.Logger) libraryLog {
	log = log.Named("grpc").With(event.LibraryLog)
	return libraryLog{zapgrpc.NewLogger(log), log.Sugar()}
}

func (l libraryLog) Info(args ...any)                 { l.debug.Debug(args...) }
func (l libraryLog) Infoln(args ...any)               { l.debug.Debugln(args...) }
func (l libraryLog) Infof(format string, args ...any) { l.debug.Debugf(format, args...) }

// V says whether lines of this verbosity are wanted.
func (l libraryLog) V(int) bool { return l.debug.Desugar().Core().Enabled(zap.DebugLevel) }
