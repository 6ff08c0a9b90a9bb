package restatetest

import (
	"fmt"
	"net/http"
)

// nginxText has the status texts of nginx that differ from net/http's.
var nginxText = map[int]string{
	http.StatusServiceUnavailable: "Service Temporarily Unavailable",
	http.StatusGatewayTimeout:     "Gateway Time-out",
}

// ProxyError answers as an nginx in front of the ingress does: with an HTML page and without x-restate-error-source. nginx answers 502 when
// the ingress refuses or drops connections, 503 when no ingress is available and 504 when it does not answer in time. Nothing is
// started, except with [Step.AfterAccept]. It panics if the code is not between 400 and 599.
func ProxyError(code int) Step {
	if code < 400 || code > 599 {
		panic(fmt.Sprintf("restatetest: ProxyError(%d): not an error's status code", code))
	}
	text := nginxText[code]
	if text == "" {
		text = http.StatusText(code)
	}
	title := fmt.Sprintf("%d %s", code, text)
	return step(func(x *exchange) {
		if x.w.Header().Get("Content-Type") == "" {
			x.w.Header().Set("Content-Type", "text/html")
		}
		if x.w.Header().Get("Server") == "" {
			x.w.Header().Set("Server", "nginx")
		}
		x.w.WriteHeader(code)
		_, _ = fmt.Fprintf(x.w, "<html>\r\n<head><title>%s</title></head>\r\n<body>\r\n<center><h1>%s</h1></center>\r\n"+
			"<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n", title, title)
	})
}

// Redirect answers with a redirect status, such as 302 or 307, and a Location header, absolute or relative, and no body. Go's client
// follows it by default: after 307 and 308 with the same method and body, after the others with a GET without a body.
// [Server.Client] reaches this server at any host of the location. Nothing is started. It panics if the status is not between
// 300 and 399.
func Redirect(status int, location string) Step {
	if status < 300 || status > 399 {
		panic(fmt.Sprintf("restatetest: Redirect(%d): not a redirect's status code", status))
	}
	return Status(status).WithHeader("Location", location)
}
