package main

// config is what the environment says.
type config struct {
	redisAddr string
	ingress   string
	httpAddr  string
	keyPrefix string
}

// readConfig takes a variable that is set but empty for one that is not set.
func readConfig(getenv func(string) string) config {
	or := func(name, otherwise string) string {
		if value := getenv(name); value != "" {
			return value
		}
		return otherwise
	}
	return config{
		redisAddr: or("REDIS_ADDR", "localhost:6379"),
		ingress:   or("RESTATE_INGRESS", "http://localhost:8080"),
		httpAddr:  or("HTTP_ADDR", ":8090"),
		keyPrefix: or("KEY_PREFIX", ""),
	}
}
