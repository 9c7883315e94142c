package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/zapr"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// version is set at build time by the Makefile.
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// Restore the default action, so that a second signal kills the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run executes the command and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "accelerator-operator: %v (see --help)\n", err)
		return 2
	case s.version:
		fmt.Fprintln(stdout, version)
		return 0
	}
	log := newLogger(s, stderr)
	libraries := zapr.NewLogger(log.With(logevent.LibraryLog))
	ctrl.SetLogger(libraries)
	klog.SetLogger(libraries)
	stdlog.SetFlags(0)
	stdlog.SetOutput(zap.NewStdLog(log.With(logevent.LibraryLog)).Writer()) // net/http logs failed handshakes, Helm logs invalid values

	log.Info("operator started", logevent.OperatorStarted, logevent.Version(version), logevent.PID(os.Getpid()))
	if err := serve(ctx, s, log); err != nil {
		log.Error("operator failed", logevent.OperatorFailed, logevent.Err(err))
		return 1
	}
	log.Info("operator stopped", logevent.OperatorStopped)
	return 0
}

func newLogger(s settings, w io.Writer) *zap.Logger {
	level, err := zapcore.ParseLevel(s.logLevel)
	if err != nil {
		level = zapcore.InfoLevel // can't happen, because parse has checked the level
	}
	encoder := zapcore.NewJSONEncoder(logevent.Keys())
	if s.logFormat == "console" {
		encoder = zapcore.NewConsoleEncoder(logevent.Keys())
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level))
}
