package apiserver

import (
	"github.com/go-logr/logr/funcr"
	"go.uber.org/zap"
	"k8s.io/klog/v2"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// UseLogger redirects client-go's log lines to log. It affects the whole process, and must be called only once, before
// [Open].
func UseLogger(log *zap.Logger) {
	lines := log.Named("client-go").With(logevent.LibraryLog).Sugar()
	klog.SetLogger(funcr.New(func(_, line string) { lines.Warn(line) }, funcr.Options{}))
}
