package grpclog

import (
	"go.uber.org/zap"
	"google.golang.org/grpc/grpclog"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// Use sends the grpc library's log lines to log. It affects the whole process. It must be called only once, before grpc
// is used.
func Use(log *zap.Logger) {
	grpclog.SetLoggerV2(New(log))
}

// libraryLog is grpc's logger. The library warns about every connection that ends, even though that's normal during a
// restart or a stop and the server logs it anyway. So the library's info and warning lines are logged at level debug,
// and its errors at level warn.
type libraryLog struct {
	*zap.SugaredLogger // implements the methods for fatal errors
}

// New returns a logger for grpc that writes to log.
func New(log *zap.Logger) grpclog.LoggerV2 {
	return libraryLog{log.Named("grpc").With(logevent.LibraryLog).Sugar()}
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

// V reports whether lines of this verbosity are logged.
func (l libraryLog) V(int) bool { return l.Desugar().Core().Enabled(zap.DebugLevel) }
