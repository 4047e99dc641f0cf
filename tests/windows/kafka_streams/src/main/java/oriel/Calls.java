package oriel;

import java.lang.reflect.Executable;
import java.util.Arrays;
import java.util.TreeSet;
import java.util.stream.Stream;

/** Prints what users may call of each class: "CLASS METHOD", a constructor as CLASS, a line each. */
public final class Calls {
  private Calls() {}

  public static void main(String[] classes) throws ClassNotFoundException {
    for (String name : classes) {
      Class<?> type = Class.forName(name);
      var calls = new TreeSet<String>();
      for (Executable call : callsOf(type)) {
        // A name stays as long as one of its overloads is not deprecated.
        if (!call.isAnnotationPresent(Deprecated.class) && !call.isSynthetic()) {
          boolean isMethod = call instanceof java.lang.reflect.Method;
          calls.add(isMethod ? call.getName() : type.getSimpleName());
        }
      }
      calls.forEach(call -> System.out.println(name + " " + call));
    }
  }

  private static Executable[] callsOf(Class<?> type) {
    // What Object has too (toString, hashCode ...) is no call of the class.
    var inherited = new TreeSet<String>();
    Arrays.stream(Object.class.getMethods()).forEach(call -> inherited.add(call.getName()));
    Stream<Executable> methods =
      Arrays.stream(type.getMethods())
        .filter(call -> !inherited.contains(call.getName()))
        .map(call -> call);
    Stream<Executable> constructors = Arrays.stream(type.getConstructors()).map(call -> call);
    return Stream.concat(constructors, methods).toArray(Executable[]::new);
  }
}
