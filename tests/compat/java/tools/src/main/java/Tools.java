import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after the other in one process: starting Java for each would take most of the time.
 *
 * A line of the input is what the tool shall read, in Base64, then a class and its arguments, parted by tabs; a line of the output is
 * the exit code and what the tool printed, in Base64.  The tools end through Kafka's Exit, which lets us see the code instead.
 */
public final class Tools {
    private static final class Ended extends Error {
        final int code;

        Ended(int code) {
            super("the tool ended with " + code, null, false, false);
            this.code = code;
        }
    }

    private static volatile Integer firstCode;

    public static void main(String[] arguments) throws Exception {
        Exit.Procedure end = (code, message) -> {
            if (firstCode == null) {
                firstCode = code;
            }
            throw new Ended(code);
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> { });
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream stream = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(stream);
            System.setErr(stream);
            String[] parts = line.split("\t", -1);
            System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(parts[0])));
            int code = run(parts[1], Arrays.copyOfRange(parts, 2, parts.length));
            answers.println(code + " " + Base64.getEncoder().encodeToString(printed.toByteArray()));
            answers.flush();
        }
    }

    private static int run(String tool, String[] arguments) {
        firstCode = null;
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException failure) {
            if (!(failure.getCause() instanceof Ended)) {
                failure.getCause().printStackTrace();
                return firstCode == null ? 1 : firstCode;
            }
        } catch (ReflectiveOperationException failure) {
            failure.printStackTrace();
            return 127;
        }
        return firstCode == null ? 0 : firstCode;
    }
}
