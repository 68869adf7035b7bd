// Prints what client-go reads from kubeconfigs and, with --connect, whether its requests reach the servers.
//
// Each line of standard input is the path of a kubeconfig, each line of output the outcome in JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

type outcome struct {
	Error     string `json:"error,omitempty"`
	Host      string `json:"host,omitempty"`
	Token     string `json:"token,omitempty"`
	Name      string `json:"server_name,omitempty"`
	Insecure  bool   `json:"insecure,omitempty"`
	Exec      *exec  `json:"exec,omitempty"`
	Reached   bool   `json:"reached,omitempty"`
	Transport string `json:"transport,omitempty"`
}

type exec struct {
	Command     string            `json:"command"`
	Arguments   []string          `json:"arguments"`
	Environment map[string]string `json:"environment"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		if err := output.Encode(try(lines.Text(), len(os.Args) > 1)); err != nil {
			panic(err)
		}
	}
}

func try(path string, connect bool) outcome {
	loader := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loader, nil).ClientConfig()
	if err != nil {
		return outcome{Error: err.Error()}
	}
	result := outcome{
		Host: config.Host, Token: config.BearerToken, Name: config.ServerName, Insecure: config.Insecure,
	}
	if plugin := config.ExecProvider; plugin != nil {
		environment := map[string]string{}
		for _, variable := range plugin.Env {
			environment[variable.Name] = variable.Value
		}
		result.Exec = &exec{Command: plugin.Command, Arguments: plugin.Args, Environment: environment}
	} else if !connect {
		return result
	} else if err := request(config); err != nil {
		result.Transport = err.Error()
	} else {
		result.Reached = true
	}
	return result
}

func request(config *rest.Config) error {
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.Timeout = 10 * time.Second
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return err
	}
	return client.Get().AbsPath("/version").Do(context.Background()).Error()
}
