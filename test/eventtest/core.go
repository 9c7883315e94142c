package eventtest

import (
	"io"
	"slices"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// core checks each log line and passes it on to another core.
type core struct {
	zapcore.Core
	t    testing.TB
	with []zapcore.Field
}

// Checked returns a core that passes log lines on to another core, and fails the test if a line doesn't match the
// declaration of its event. Don't use it after the test has ended.
func Checked(t testing.TB, to zapcore.Core) zapcore.Core { return &core{Core: to, t: t} }

// Observed returns a core that checks log lines at every level and stores them in the ObservedLogs that it also returns.
func Observed(t testing.TB) (zapcore.Core, *observer.ObservedLogs) {
	to, logs := observer.New(zapcore.DebugLevel)
	return Checked(t, to), logs
}

// Log returns a logger that checks lines at every level and then discards them.
func Log(t testing.TB) *zap.Logger {
	return zap.New(Checked(t, zapcore.NewCore(encoder, zapcore.AddSync(io.Discard), zapcore.DebugLevel)))
}

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{Core: c.Core.With(fields), t: c.t, with: slices.Concat(c.with, fields)}
}

func (c *core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) {
		return checked
	}
	return checked.AddCore(entry, c)
}

func (c *core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	text, err := encoder.Clone().EncodeEntry(entry, slices.Concat(c.with, fields))
	if err == nil {
		err = Line(text.Bytes())
		text.Free()
	}
	if err != nil {
		c.t.Errorf("log: %v", err)
	}
	return c.Core.Write(entry, fields)
}

// encoder encodes lines the way the daemon does.
var encoder = zapcore.NewJSONEncoder(logevent.Keys())
