package server

import (
	"go.uber.org/zap"
	"google.golang.org/grpc/grpclog"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// UseLogger sends the log lines of the grpc library to log: one setting for the
// whole process, to be made once and before anything uses grpc.
func UseLogger(log *zap.Logger) {
	grpclog.SetLoggerV2(newLibraryLog(log))
}

// libraryLog is grpc's logger. The library warns of connections that end, which
// is how each restart and each stop looks; what matters of it we say ourselves.
// So its information and warnings go to Debug, its errors to Warn.
type libraryLog struct {
	*zap.SugaredLogger // takes what is fatal
}

func newLibraryLog(log *zap.Logger) libraryLog {
	return libraryLog{log.Named("grpc").With(event.LibraryLog).Sugar()}
}

func (l libraryLog) Info(args ...any)                    { l.Debug(args...) }
func (l libraryLog) Infoln(args ...any)                  { l.Debugln(args...) }
func (l libraryLog) Infof(format string, args ...any)    { l.Debugf(format, args...) }
func (l libraryLog) Warning(args ...any)                 { l.Debug(args...) }
func (l libraryLog) Warningln(args ...any)               { l.Debugln(args...) }
func (l libraryLog) Warningf(format string, args ...any) { l.Debugf(format, args...) }
func (l libraryLog) Error(args ...any)                   { l.Warn(args...) }
func (l libraryLog) Errorln(args ...any)                 { l.Warnln(args...) }
func (l libraryLog) Errorf(format string, args ...any)   { l.Warnf(format, args...) }

// V says whether lines of this verbosity are wanted.
func (l libraryLog) V(int) bool { return l.Desugar().Core().Enabled(zap.DebugLevel) }
