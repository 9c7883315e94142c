package daemon

import (
	"io"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/internal/throttle"
)

// NewLogger returns a logger that writes to w, either as JSON or as text. Logging blocks until the line has been
// written.
func NewLogger(cfg config.Config, w io.Writer) *zap.Logger {
	return newZap(zapcore.NewCore(newEncoder(cfg, w), zapcore.Lock(zapcore.AddSync(w)), levelOf(cfg)))
}

// Log is a daemon's log. It suppresses and counts repeated warnings, and the debug level can be switched on and off at
// any time. Logging never blocks.
type Log struct {
	*zap.Logger
	level zap.AtomicLevel
	usual zapcore.Level // the level when debug is off
	limit *throttle.Core
	lines *backlog.Core
}

// OpenLog returns a log that writes to w and counts the lines it drops in m. The caller must call [Log.Close] before
// exiting. OpenLog makes the process ignore SIGPIPE, so if the log's reader closes the pipe, lines are lost but the
// daemon keeps running.
func OpenLog(cfg config.Config, w io.Writer, m *metrics.Metrics) *Log {
	signal.Ignore(syscall.SIGPIPE)
	l := &Log{usual: levelOf(cfg), level: zap.NewAtomicLevelAt(levelOf(cfg))}
	if l.usual == zapcore.DebugLevel {
		l.usual = zapcore.InfoLevel
	}
	l.lines = backlog.New(newEncoder(cfg, w), w, l.level, func(level zapcore.Level) { m.LogDropped(level.String()) })
	l.limit = throttle.New(l.lines)
	l.Logger = newZap(l.limit)
	return l
}

// Close waits until all lines have been written, or for half a second if the log's reader has stalled. Lines logged
// after that are dropped.
func (l *Log) Close() { l.lines.Close() }

// Toggle switches the debug level on or off. It logs the change while debug is on so that the line is always written.
func (l *Log) Toggle() {
	old, next := l.level.Level(), zapcore.DebugLevel
	if old == zapcore.DebugLevel {
		next = l.usual
	}
	l.level.SetLevel(zapcore.DebugLevel)
	l.Warn("log level changed", logevent.LogLevel, logevent.Old(old.String()), logevent.New(next.String()))
	l.level.SetLevel(next)
}

// EndCounts logs how many lines have been suppressed, and stops suppressing lines.
func (l *Log) EndCounts() { l.limit.Close() }

func newZap(core zapcore.Core) *zap.Logger {
	// The log's own errors are discarded, because there is no other log.
	return zap.New(core, zap.ErrorOutput(zapcore.AddSync(io.Discard)))
}

func newEncoder(cfg config.Config, w io.Writer) zapcore.Encoder {
	keys := logevent.Keys()
	if cfg.LogFormat == "console" {
		keys.EncodeTime = zapcore.TimeEncoderOfLayout(time.StampMilli)
		if terminal.Is(w) {
			keys.EncodeLevel = zapcore.LowercaseColorLevelEncoder
		}
		return zapcore.NewConsoleEncoder(keys)
	}
	return zapcore.NewJSONEncoder(keys)
}

func levelOf(cfg config.Config) zapcore.Level {
	level, err := zapcore.ParseLevel(cfg.LogLevel)
	if err != nil {
		return zapcore.InfoLevel // unreachable: package config has checked the name
	}
	return level
}

// LogUsage logs why a daemon didn't start.
func LogUsage(w io.Writer, err error) {
	NewLogger(config.Defaults(), w).Error("configuration refused", logevent.DaemonFailed, logevent.Err(err))
}
