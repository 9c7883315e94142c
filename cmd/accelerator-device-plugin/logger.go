package main

import (
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/event"
)

// newLogger writes lines to w, one JSON object each, or text for people.
func newLogger(cfg config.Config, w io.Writer) *zap.Logger {
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
	level, err := zapcore.ParseLevel(cfg.LogLevel)
	if err != nil {
		level = zapcore.InfoLevel // config has checked the name
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level)
	// A log that cannot be written cannot be complained about in the log.
	return zap.New(core, zap.ErrorOutput(zapcore.AddSync(io.Discard)))
}

// logUsage says in the log why serve did not start.
func logUsage(w io.Writer, err error) {
	newLogger(config.Defaults(), w).Error("configuration refused", event.DaemonFailed, event.Err(err))
}
