package apiserver

import (
	"github.com/go-logr/logr/funcr"
	"go.uber.org/zap"
	"k8s.io/klog/v2"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// UseLogger sends the log lines of client-go to log. It applies to the whole process, and must
// be called once, before [Open].
func UseLogger(log *zap.Logger) {
	lines := log.Named("client-go").With(logevent.LibraryLog).Sugar()
	klog.SetLogger(funcr.New(func(_, line string) { lines.Warn(line) }, funcr.Options{}))
}
