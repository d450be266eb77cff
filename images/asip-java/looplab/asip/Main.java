package looplab.asip;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** Serves one controller at a time; the protocol is in workers.py of the experiment. */
public final class Main {
    private static final int PORT = 5100;
    private static final int RESTART = 75;
    private static volatile boolean restarting;

    private final BufferedReader in;
    private final PrintStream out;

    private Main(Socket controller) throws IOException {
        in = new BufferedReader(new InputStreamReader(controller.getInputStream(), StandardCharsets.UTF_8));
        out = new PrintStream(controller.getOutputStream(), true, StandardCharsets.UTF_8);
    }

    public static void main(String[] arguments) throws IOException {
        // The name by which the lab finds the process.
        Files.writeString(Path.of("/proc/self/comm"), "lab-asip-java");
        String port = System.getenv().getOrDefault("WORKER_PORT", Integer.toString(PORT));
        try (ServerSocket server = new ServerSocket(Integer.parseInt(port))) {
            while (!restarting) {
                try (Socket controller = server.accept()) {
                    controller.setTcpNoDelay(true);
                    new Main(controller).serve();
                } catch (IOException error) {
                    System.err.println("The controller's connection ended: " + error.getMessage());
                }
            }
        }
        System.exit(RESTART);
    }

    /** Makes the process end once the controller was answered, for what only a new one can do. */
    static void restart(String why) {
        System.err.println("This worker ends to be started again: " + why + ".");
        restarting = true;
    }

    private void serve() throws IOException {
        String line;
        while (!restarting && (line = in.readLine()) != null) {
            out.println(answer(line));
        }
    }

    private String answer(String line) {
        try {
            Request request = Request.of(line);
            return "ok"
                    + switch (request.command) {
                        case "hello" -> " runtime=" + runtime();
                        case "latency" -> counted(request, new Latency(request, out));
                        case "follow" -> counted(request, new Follow(request, in, out));
                        default -> throw new Refused("there is no command " + request.command);
                    };
        } catch (Refused | IOException error) {
            return "error " + error.getMessage();
        } catch (InterruptedException stopped) {
            return "error stopped";
        } catch (RuntimeException | LinkageError error) {
            error.printStackTrace();
            return "error the worker failed, see its log: " + error;
        }
    }

    private static String runtime() {
        boolean interpreter = System.getProperty("java.vm.info", "").contains("interpreted");
        return "OpenJDK_" + System.getProperty("java.version") + (interpreter ? ",_interpreter" : ",_JIT");
    }

    /** Returns the facts of a task, with the bytes of the session, once the way to the board is closed. */
    private static String counted(Request request, Task task) throws IOException, Refused, InterruptedException {
        Counts counts = new Counts();
        String facts;
        try (Transport transport = Transport.of(request);
                Board board = new Board(
                        transport, request.number("in_port"), request.number("in_bit"), request.on("reports"), counts)) {
            board.connect();
            facts = task.run(board);
        }
        return facts + counts.whole();
    }
}
