@cuda.jit("void(int64, int64, CPointer(float64), int64, int64, int64, int64, CPointer(float64), CPointer(float64), int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def kernel(n0, n1, x0, s3, c4, c5, c6, x1, x2, b9, c10, b11, b12, b13, b14, c15, s16, b17, c18, s19):
    # multiply: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    c4 = int32(c4)
    c5 = int32(c5)
    c6 = int32(c6)
    b9 = int32(b9)
    c10 = int32(c10)
    b11 = int32(b11)
    b12 = int32(b12)
    b13 = int32(b13)
    b14 = int32(b14)
    c15 = int32(c15)
    s16 = int32(s16)
    b17 = int32(b17)
    c18 = int32(c18)
    s19 = int32(s19)
    v5 = float64(0.0)
    v7 = x1[0]
    v11 = float64(2.0)
    v40 = float64(0.0)
    v51 = x1[0]
    v55 = float64(2.0)
    tasks = uint32(n0 * n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task % max(uint32(n1), uint32(1)))
        rest1 = uint32(task // max(uint32(n1), uint32(1)))
        i0 = int32(rest1)
        if b12 <= i0 < b13:
            if i1 < b9:
                p0 = int32(i0 * s3 + i1)
                v0 = x0[p0 + c4]
                v1 = x0[p0 + c5]
                v2 = v0 + v1
                v3 = x0[p0 + c6]
                v4 = v2 + v3
                v6 = v4 + v5
                v8 = x0[p0]
                v9 = v7 * v8
                v10 = v6 - v9
                v12 = v10 * v11
                x2[p0] = v12
            elif i1 < b11:
                p1 = int32(i0 * s3 + i1)
                v13 = x0[p1 + c4]
                v14 = x0[p1 + c5]
                v15 = v13 + v14
                v16 = x0[p1 + c6]
                v17 = v15 + v16
                v18 = x0[p1 + c10]
                v19 = v17 + v18
                v20 = x0[p1]
                v21 = v7 * v20
                v22 = v19 - v21
                v23 = v22 * v11
                x2[p1] = v23
            else:
                p2 = int32(i0 * s3 + i1)
                v24 = x0[p2 + c4]
                v25 = x0[p2 + c5]
                v26 = v24 + v25
                v27 = v26 + v5
                v28 = x0[p2 + c10]
                v29 = v27 + v28
                v30 = x0[p2]
                v31 = v7 * v30
                v32 = v29 - v31
                v33 = v32 * v11
                x2[p2] = v33
        else:
            v34 = i0
            v35 = (b14 <= v34) & (v34 < b13)
            v37 = int32(i0 + c15)
            v38 = v37 if v35 else int32(0)
            v42 = (b12 <= v34) & (v34 < b17)
            v43 = int32(i0 + c18)
            v44 = v43 if v42 else int32(0)
            if i1 < b9:
                p3 = int32(v38 * s16 + i1)
                v39 = x0[p3]
                v41 = cuda.selp(v35, v39, v40)
                p4 = int32(v44 * s19 + i1)
                v45 = x0[p4]
                v46 = cuda.selp(v42, v45, v40)
                v47 = v41 + v46
                p5 = int32(i0 * s3 + i1)
                v48 = x0[p5 + c6]
                v49 = v47 + v48
                v50 = v49 + v40
                v52 = x0[p5]
                v53 = v51 * v52
                v54 = v50 - v53
                v56 = v54 * v55
                x2[p5] = v56
            elif i1 < b11:
                p6 = int32(v38 * s16 + i1)
                v57 = x0[p6]
                v58 = cuda.selp(v35, v57, v40)
                p7 = int32(v44 * s19 + i1)
                v59 = x0[p7]
                v60 = cuda.selp(v42, v59, v40)
                v61 = v58 + v60
                p8 = int32(i0 * s3 + i1)
                v62 = x0[p8 + c6]
                v63 = v61 + v62
                v64 = x0[p8 + c10]
                v65 = v63 + v64
                v66 = x0[p8]
                v67 = v51 * v66
                v68 = v65 - v67
                v69 = v68 * v55
                x2[p8] = v69
            else:
                p9 = int32(v38 * s16 + i1)
                v70 = x0[p9]
                v71 = cuda.selp(v35, v70, v40)
                p10 = int32(v44 * s19 + i1)
                v72 = x0[p10]
                v73 = cuda.selp(v42, v72, v40)
                v74 = v71 + v73
                v75 = v74 + v40
                p11 = int32(i0 * s3 + i1)
                v76 = x0[p11 + c10]
                v77 = v75 + v76
                v78 = x0[p11]
                v79 = v51 * v78
                v80 = v77 - v79
                v81 = v80 * v55
                x2[p11] = v81
        task = uint32(task + step)


@cuda.jit("void(int64, int64, int64, int64, int64, int64, int64, int64, CPointer(float64), int64, int64, int64, int64, CPointer(float64), int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def kernel(n0, n1, b2, b3, c4, b5, c6, b7, x0, s9, c10, c11, c12, x1, s14, c15, c16, c17, c18, c19, c20, c21, b22, b23, c24, b25, b26, c27, s28, s29, s30, c31, c32, c33):
    # add_slice: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    b2 = int32(b2)
    b3 = int32(b3)
    c4 = int32(c4)
    b5 = int32(b5)
    c6 = int32(c6)
    b7 = int32(b7)
    s9 = int32(s9)
    c10 = int32(c10)
    c11 = int32(c11)
    c12 = int32(c12)
    s14 = int32(s14)
    c15 = int32(c15)
    c16 = int32(c16)
    c17 = int32(c17)
    c18 = int32(c18)
    c19 = int32(c19)
    c20 = int32(c20)
    c21 = int32(c21)
    b22 = int32(b22)
    b23 = int32(b23)
    c24 = int32(c24)
    b25 = int32(b25)
    b26 = int32(b26)
    c27 = int32(c27)
    s28 = int32(s28)
    s29 = int32(s29)
    s30 = int32(s30)
    c31 = int32(c31)
    c32 = int32(c32)
    c33 = int32(c33)
    v11 = float64(0.0)
    v73 = float64(0.0)
    tasks = uint32(n0 * n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task % max(uint32(n1), uint32(1)))
        rest1 = uint32(task // max(uint32(n1), uint32(1)))
        i0 = int32(rest1)
        if b22 <= i0 < b23:
            if i1 < b5:
                v0 = i1
                v1 = (b2 <= v0) & (v0 < b3)
                v3 = int32(i1 + c4)
                v4 = v3 if v1 else int32(0)
                v5 = (b5 <= v0) & (v0 < n1)
                v6 = int32(i1 + c6)
                v7 = v6 if v5 else int32(0)
                v8 = (0 <= v0) & (v0 < b7)
                v9 = v0 if v8 else int32(0)
                p0 = int32(i0 * s9 + v9)
                v10 = x0[p0 + c10]
                v12 = cuda.selp(v8, v10, v11)
                p1 = int32(i0 * s9 + v7)
                v13 = x0[p1 + c11]
                v14 = v12 + v13
                v15 = cuda.selp(v5, v14, v12)
                p2 = int32(i0 * s9 + v4)
                v16 = x0[p2]
                v17 = v15 + v16
                v18 = cuda.selp(v1, v17, v15)
                v19 = x0[p2 + c12]
                v20 = v18 + v19
                v21 = cuda.selp(v1, v20, v18)
                p3 = int32(i0 * s14 + i1)
                x1[p3] = v21
            elif i1 < b7:
                p4 = int32(i0 * s9 + i1)
                v22 = x0[p4 + c15]
                v23 = x0[p4 + c16]
                v24 = v22 + v23
                v25 = x0[p4 + c17]
                v26 = v24 + v25
                v27 = x0[p4 + c18]
                v28 = v26 + v27
                p5 = int32(i0 * s14 + i1)
                x1[p5] = v28
            else:
                v29 = i1
                v30 = (b2 <= v29) & (v29 < b3)
                v31 = int32(i1 + c4)
                v32 = v31 if v30 else int32(0)
                v33 = (b5 <= v29) & (v29 < n1)
                v34 = int32(i1 + c6)
                v35 = v34 if v33 else int32(0)
                v36 = (0 <= v29) & (v29 < b7)
                v37 = v29 if v36 else int32(0)
                p6 = int32(i0 * s9 + v37)
                v38 = x0[p6 + c19]
                v39 = cuda.selp(v36, v38, v11)
                p7 = int32(i0 * s9 + v35)
                v40 = x0[p7 + c20]
                v41 = v39 + v40
                v42 = cuda.selp(v33, v41, v39)
                p8 = int32(i0 * s9 + v32)
                v43 = x0[p8]
                v44 = v42 + v43
                v45 = cuda.selp(v30, v44, v42)
                v46 = x0[p8 + c21]
                v47 = v45 + v46
                v48 = cuda.selp(v30, v47, v45)
                p9 = int32(i0 * s14 + i1)
                x1[p9] = v48
        else:
            v49 = i0
            v50 = (b22 <= v49) & (v49 < n0)
            v52 = int32(i0 + c24)
            v53 = v52 if v50 else int32(0)
            v59 = (0 <= v49) & (v49 < b23)
            v60 = v49 if v59 else int32(0)
            v62 = (b25 <= v49) & (v49 < b26)
            v63 = int32(i0 + c27)
            v64 = v63 if v62 else int32(0)
            if i1 < b5:
                v54 = i1
                v55 = (b2 <= v54) & (v54 < b3)
                v56 = int32(i1 + c4)
                v57 = v56 if v55 else int32(0)
                v58 = v50 & v55
                v61 = v59 & v55
                v65 = (b5 <= v54) & (v54 < n1)
                v66 = int32(i1 + c6)
                v67 = v66 if v65 else int32(0)
                v68 = v62 & v65
                v69 = (0 <= v54) & (v54 < b7)
                v70 = v54 if v69 else int32(0)
                v71 = v62 & v69
                p10 = int32(v64 * s28 + v70)
                v72 = x0[p10]
                v74 = cuda.selp(v71, v72, v73)
                p11 = int32(v64 * s28 + v67)
                v75 = x0[p11]
                v76 = v74 + v75
                v77 = cuda.selp(v68, v76, v74)
                p12 = int32(v60 * s29 + v57)
                v78 = x0[p12]
                v79 = v77 + v78
                v80 = cuda.selp(v61, v79, v77)
                p13 = int32(v53 * s30 + v57)
                v81 = x0[p13]
                v82 = v80 + v81
                v83 = cuda.selp(v58, v82, v80)
                p14 = int32(i0 * s14 + i1)
                x1[p14] = v83
            elif i1 < b7:
                p15 = int32(v64 * s28 + i1)
                v84 = x0[p15]
                v85 = cuda.selp(v62, v84, v73)
                v86 = x0[p15 + c31]
                v87 = v85 + v86
                v88 = cuda.selp(v62, v87, v85)
                p16 = int32(v60 * s29 + i1)
                v89 = x0[p16 + c32]
                v90 = v88 + v89
                v91 = cuda.selp(v59, v90, v88)
                p17 = int32(v53 * s30 + i1)
                v92 = x0[p17 + c33]
                v93 = v91 + v92
                v94 = cuda.selp(v50, v93, v91)
                p18 = int32(i0 * s14 + i1)
                x1[p18] = v94
            else:
                v95 = i1
                v96 = (b2 <= v95) & (v95 < b3)
                v97 = int32(i1 + c4)
                v98 = v97 if v96 else int32(0)
                v99 = v50 & v96
                v100 = v59 & v96
                v101 = (b5 <= v95) & (v95 < n1)
                v102 = int32(i1 + c6)
                v103 = v102 if v101 else int32(0)
                v104 = v62 & v101
                v105 = (0 <= v95) & (v95 < b7)
                v106 = v95 if v105 else int32(0)
                v107 = v62 & v105
                p19 = int32(v64 * s28 + v106)
                v108 = x0[p19]
                v109 = cuda.selp(v107, v108, v73)
                p20 = int32(v64 * s28 + v103)
                v110 = x0[p20]
                v111 = v109 + v110
                v112 = cuda.selp(v104, v111, v109)
                p21 = int32(v60 * s29 + v98)
                v113 = x0[p21]
                v114 = v112 + v113
                v115 = cuda.selp(v100, v114, v112)
                p22 = int32(v53 * s30 + v98)
                v116 = x0[p22]
                v117 = v115 + v116
                v118 = cuda.selp(v99, v117, v115)
                p23 = int32(i0 * s14 + i1)
                x1[p23] = v118
        task = uint32(task + step)


@cuda.jit("void(int64, int64, CPointer(float64), int64, CPointer(float64), CPointer(float64), int64, int64, CPointer(float64))")
def kernel(n0, n1, x0, s3, x1, x2, s6, c7, x3):
    # add: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    s6 = int32(s6)
    c7 = int32(c7)
    v2 = x1[0]
    tasks = uint32(n0 * n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task % max(uint32(n1), uint32(1)))
        rest1 = uint32(task // max(uint32(n1), uint32(1)))
        i0 = int32(rest1)
        p0 = int32(i0 * s3 + i1)
        v0 = x0[p0]
        v1 = -v0
        v3 = v1 * v2
        p1 = int32(i0 * s6 + i1)
        v4 = x2[p1 + c7]
        v5 = v3 + v4
        x3[p0] = v5
        task = uint32(task + step)
