package backlog

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Core is a zapcore.Core whose lines are written in the background.
type Core struct {
	zapcore.LevelEnabler
	encoder zapcore.Encoder
	queue   *queue
}

// New returns a core that writes to w, and starts its goroutine, which [Core.Close] ends.
// dropped is called for each line that is dropped, with its level, and must not block.
func New(encoder zapcore.Encoder, w io.Writer, level zapcore.LevelEnabler, dropped func(zapcore.Level)) *Core {
	return newCore(encoder, w, level, dropped, size)
}

func newCore(encoder zapcore.Encoder, w io.Writer, level zapcore.LevelEnabler, dropped func(zapcore.Level), size int) *Core {
	return &Core{LevelEnabler: level, encoder: encoder, queue: newQueue(encoder.Clone(), w, dropped, size)}
}

// Level returns the least level that is enabled.
func (c *Core) Level() zapcore.Level { return zapcore.LevelOf(c.LevelEnabler) }

// With returns a core that adds these fields to its lines and shares the buffer.
func (c *Core) With(fields []zapcore.Field) zapcore.Core {
	encoder := c.encoder.Clone()
	for _, f := range fields {
		f.AddTo(encoder)
	}
	return &Core{LevelEnabler: c.LevelEnabler, encoder: encoder, queue: c.queue}
}

// Check adds the core to those that write the entry if its level is enabled.
func (c *Core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write encodes a line and adds it to the buffer, or drops it.
func (c *Core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	line, err := c.encoder.EncodeEntry(entry, fields)
	if err != nil {
		return err
	}
	c.queue.add(min(entry.Level, zapcore.ErrorLevel), line.Bytes())
	line.Free()
	if entry.Level > zapcore.ErrorLevel {
		c.queue.flush() // zap ends the process next
	}
	return nil
}

// Sync blocks until the lines so far are written, for [flushTimeout] at most.
func (c *Core) Sync() error {
	c.queue.flush()
	return nil
}

// FlushOnPanic writes the lines so far if the goroutine that defers it panics, and panics
// again with the same value. It must be deferred itself, not called by a deferred func.
func FlushOnPanic(log *zap.Logger) {
	if v := recover(); v != nil {
		_ = log.Sync() // there is nowhere to report an error
		panic(v)
	}
}

// Close blocks until the lines so far are written and the goroutine has ended, for
// [flushTimeout] at most. Lines that are logged later are dropped.
func (c *Core) Close() { c.queue.close() }
