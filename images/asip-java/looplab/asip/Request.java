package looplab.asip;

import java.util.HashMap;
import java.util.Map;

/** One line of the controller: a command and its values, {@code latency tests=100 transport=tcp}. */
final class Request {
    final String command;
    private final Map<String, String> values = new HashMap<>();

    private Request(String command) {
        this.command = command;
    }

    static Request of(String line) throws Refused {
        String[] words = line.strip().split("\\s+");
        Request request = new Request(words[0]);
        for (int at = 1; at < words.length; at++) {
            int equals = words[at].indexOf('=');
            if (equals < 1) {
                throw new Refused("expected name=value, not " + words[at]);
            }
            request.values.put(words[at].substring(0, equals), words[at].substring(equals + 1));
        }
        return request;
    }

    String text(String name) throws Refused {
        String value = values.get(name);
        if (value == null) {
            throw new Refused("the request lacks " + name);
        }
        return value;
    }

    int number(String name) throws Refused {
        try {
            return Integer.parseInt(text(name));
        } catch (NumberFormatException error) {
            throw new Refused(name + "=" + text(name) + " is no whole number");
        }
    }

    boolean on(String name) {
        return "on".equals(values.get(name));
    }
}
