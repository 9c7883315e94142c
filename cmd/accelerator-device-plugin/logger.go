package main

import (
	"io"
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/throttle"
)

// newLogger writes lines to w, one JSON object each, or text for people.
func newLogger(cfg config.Config, w io.Writer) *zap.Logger {
	return newZap(newCore(cfg, w, levelOf(cfg)))
}

// daemonLog is the log of serve: repeated trouble is counted, and Debug is toggled
// while it runs.
type daemonLog struct {
	*zap.Logger
	level zap.AtomicLevel
	usual zapcore.Level // while Debug is off
	limit *throttle.Core
}

func openLog(cfg config.Config, w io.Writer) *daemonLog {
	l := &daemonLog{usual: levelOf(cfg), level: zap.NewAtomicLevelAt(levelOf(cfg))}
	if l.usual == zapcore.DebugLevel {
		l.usual = zapcore.InfoLevel
	}
	l.limit = throttle.New(newCore(cfg, w, l.level))
	l.Logger = newZap(l.limit)
	return l
}

// toggle turns Debug on, or off. It says so while it is on: that is heard at every
// level.
func (l *daemonLog) toggle() {
	old, next := l.level.Level(), zapcore.DebugLevel
	if old == zapcore.DebugLevel {
		next = l.usual
	}
	l.level.SetLevel(zapcore.DebugLevel)
	l.Warn("log level changed", event.LogLevel, event.Old(old.String()), event.New(next.String()))
	l.level.SetLevel(next)
}

// follow toggles Debug at each signal. The func that it returns ends that, and says
// what was counted and not said yet; lines are taken still.
func (l *daemonLog) follow(signals <-chan os.Signal) (end func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			case <-signals:
				l.toggle()
			}
		}
	}()
	return func() {
		close(over)
		<-ended
		l.limit.Close()
	}
}

func newZap(core zapcore.Core) *zap.Logger {
	// A log that cannot be written cannot be complained about in the log.
	return zap.New(core, zap.ErrorOutput(zapcore.AddSync(io.Discard)))
}

func newCore(cfg config.Config, w io.Writer, level zapcore.LevelEnabler) zapcore.Core {
	keys := zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", NameKey: "logger", MessageKey: "message",
		EncodeTime:     zapcore.TimeEncoderOfLayout(event.TimeLayout),
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.MillisDurationEncoder,
		EncodeName:     zapcore.FullNameEncoder,
	}
	encoder := zapcore.NewJSONEncoder(keys)
	if cfg.LogFormat == "console" {
		keys.EncodeTime = zapcore.TimeEncoderOfLayout(time.StampMilli)
		if isTerminal(w) {
			keys.EncodeLevel = zapcore.LowercaseColorLevelEncoder
		}
		encoder = zapcore.NewConsoleEncoder(keys)
	}
	return zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level)
}

func levelOf(cfg config.Config) zapcore.Level {
	level, err := zapcore.ParseLevel(cfg.LogLevel)
	if err != nil {
		return zapcore.InfoLevel // config has checked the name
	}
	return level
}

// logUsage says in the log why serve did not start.
func logUsage(w io.Writer, err error) {
	newLogger(config.Defaults(), w).Error("configuration refused", event.DaemonFailed, event.Err(err))
}
